// Ranges and marks of the axes. A logarithmic axis over less than a decade still has three marks or more.

const padded =
  (log, most = Infinity) =>
  (u, low, high) => {
    if (!known(low) || !known(high)) return log ? [0.1, 1] : [0, 1];
    if (log) {
      const room = Math.max((Math.log10(high) - Math.log10(low)) * 0.04, 0.01);
      return [low / 10 ** room, high * 10 ** room];
    }
    const room = (high - low || Math.abs(high) || 1) * 0.05;
    return [low >= 0 && low - room < 0 ? 0 : low - room, high <= most ? Math.min(high + room, most) : high + room];
  };
const tight = (log) => (u, low, high) => (low === high || !known(low) ? padded(log)(u, low, high) : [low, high]);

const logMarks = (low, high) => {
  const decades = Math.log10(high / low);
  const steps = decades > 4 ? [1] : decades > 1.2 ? [1, 2, 5] : decades > 0.5 ? [1, 1.5, 2, 3, 4, 5, 7] : null;
  if (!steps) return linearMarks(low, high, 5);
  const jump = Math.max(1, Math.ceil(decades / 7));
  const marks = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += 1)
    for (const step of steps) {
      const mark = Number(`${step}e${power}`);
      if (mark >= low && mark <= high && power % jump === 0) marks.push(mark);
    }
  return marks;
};

const linearMarks = (low, high, wanted) => {
  const rough = (high - low) / wanted,
    unit = 10 ** Math.floor(Math.log10(rough));
  const far = (size) => Math.abs(Math.log(size / rough));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * unit).reduce((a, b) => (far(b) < far(a) ? b : a));
  const marks = [];
  for (let k = Math.ceil(low / step); k * step <= high * (1 + 1e-12); k += 1)
    marks.push(Number((k * step).toPrecision(12)));
  return marks;
};

const marks = (log, spacing, whole) => (u, axis, low, high) => {
  const length = u.axes[axis].side % 2 ? u.bbox.height : u.bbox.width;
  const wanted = Math.max(2, length / devicePixelRatio / spacing);
  const found = log ? logMarks(low, high) : linearMarks(low, high, wanted);
  const each = whole ? found.filter(Number.isInteger) : found;
  const skip = Math.ceil(each.length / (1.6 * wanted));
  return skip > 1 ? each.filter((_, k) => k % skip === 0) : each;
};
