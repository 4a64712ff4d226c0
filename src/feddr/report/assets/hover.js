// Reading a chart: with the mouse, with a finger, or with the keyboard.

let active = null; // the chart under the mouse or the focus; the others follow its cursor without a box of numbers

const hover = (chart) => {
  const { plot, tip } = chart;
  if (!plot) return;
  const index = plot.cursor.idx;
  if (chart !== active || index == null || plot.cursor.left < 0) {
    tip.hidden = true;
    return;
  }
  const rows = read(chart);
  if (!rows.length) {
    tip.hidden = true;
    return;
  }
  const text = chart.panel.text ?? number;
  const at = chart.axis.text(plot.data[0][index]);
  put(
    tip,
    el("p", {}, `${chart.axis.title}: ${at}`),
    el(
      "table",
      {},
      el(
        "tbody",
        {},
        rows.map(({ one, y }) => el("tr", {}, el("td", {}, named(one)), el("td", {}, text(y)))),
      ),
    ),
  );
  tip.hidden = false;
  place(tip, plot.over, chart.card.querySelector(".frame"), plot.cursor.left, plot.cursor.top);
  if (document.activeElement === chart.box)
    say(`${at}. ${rows.map(({ one, y }) => `${one.label} ${text(y)}`).join(", ")}`);
};

const read = (chart) => {
  const { plot, series } = chart;
  const rows = series.map((one, i) => {
    const index = plot.cursor.idxs[i + 1];
    return { one, y: index == null ? null : plot.data[i + 1][index], shown: plot.series[i + 1].show };
  });
  return rows.filter((row) => row.shown && known(row.y)).sort((a, b) => b.y - a.y);
};

// Beside the cursor, on the side that has room, and never outside of the card.
const place = (tip, over, frame, left, top) => {
  const from = frame.getBoundingClientRect(),
    area = over.getBoundingClientRect();
  const x = area.left - from.left + left,
    y = area.top - from.top + top;
  const right = x + 16 + tip.offsetWidth <= from.width;
  tip.style.left = `${Math.max(0, right ? x + 16 : Math.min(x - 16 - tip.offsetWidth, from.width - tip.offsetWidth))}px`;
  tip.style.top = `${Math.max(0, Math.min(y - tip.offsetHeight / 2, from.height - tip.offsetHeight))}px`;
};

const moveTo = (chart, index) => {
  const { plot } = chart;
  const xs = plot.data[0];
  if (!xs.length) return;
  const at = Math.min(Math.max(index, 0), xs.length - 1);
  const left = plot.valToPos(xs[at], "x");
  const line = plot.series.findIndex((one, i) => i > 0 && one.show && known(plot.data[i][at]));
  const top = line > 0 ? plot.valToPos(plot.data[line][at], "y") : plot.over.clientHeight / 2;
  chart.index = at;
  plot.setCursor({ left, top });
};

const zoom = (plot, factor) => {
  const { min, max } = plot.scales.x;
  const xs = plot.data[0],
    middle = plot.cursor.idx == null ? (min + max) / 2 : xs[plot.cursor.idx];
  if (xs.length < 2) return;
  const low = Math.max(xs[0], middle - (middle - min) * factor),
    high = Math.min(xs.at(-1), middle + (max - middle) * factor);
  if (high > low) for (const chart of charts) chart.plot.setScale("x", { min: low, max: high });
};

// What was dragged over in one chart is shown in all.
const zoomIn = (plot) => {
  const { left, width } = plot.select;
  if (width < 3) return;
  const [min, max] = [left, left + width].map((place) => plot.posToVal(place, "x"));
  plot.setSelect({ left: 0, width: 0 }, false);
  for (const chart of charts) chart.plot.setScale("x", { min, max });
};

const zoomOut = () => {
  for (const { plot } of charts)
    if (plot.data[0].length) plot.setScale("x", { min: plot.data[0][0], max: plot.data[0].at(-1) });
};

const zoomed = (chart) => {
  const { plot } = chart,
    xs = plot.data[0];
  const { min, max } = plot.scales.x;
  chart.zoomed = xs.length > 1 && (min > xs[0] || max < xs.at(-1));
  const reset = byId("reset");
  if (reset) reset.hidden = !charts.some((one) => one.zoomed);
};

const KEYS = {
  ArrowRight: (chart) => moveTo(chart, chart.index + 1),
  ArrowLeft: (chart) => moveTo(chart, chart.index - 1),
  PageDown: (chart) => moveTo(chart, chart.index + 10),
  PageUp: (chart) => moveTo(chart, chart.index - 10),
  Home: (chart) => moveTo(chart, 0),
  End: (chart) => moveTo(chart, Infinity),
  "+": (chart) => zoom(chart.plot, 0.5),
  "=": (chart) => zoom(chart.plot, 0.5),
  "-": (chart) => zoom(chart.plot, 2),
  Escape: (chart) => {
    zoomOut();
    leave(chart);
  },
};

const leave = (chart) => {
  if (active === chart) active = null;
  chart.plot.setCursor({ left: -10, top: -10 });
  chart.tip.hidden = true;
};

const listen = (chart) => {
  const { box } = chart;
  box.addEventListener("pointerenter", () => {
    active = chart;
  });
  box.addEventListener("pointerleave", () => leave(chart));
  box.addEventListener("focus", () => {
    if (!box.matches(":focus-visible")) return;
    active = chart;
    moveTo(chart, chart.plot.data[0].length - 1);
  });
  box.addEventListener("blur", () => leave(chart));
  box.addEventListener("keydown", (event) => {
    const act = KEYS[event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    active = chart;
    chart.index ??= chart.plot.data[0].length - 1;
    act(chart);
  });
};
