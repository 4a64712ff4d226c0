// The lines of the charts: one for each method of each run, with the colour of its method and a dash of its own.

const COLOURS = 7;
const DASHES = [[], [8, 4], [2, 3], [10, 3, 2, 3], [14, 4], [6, 3, 2, 3, 2, 3], [4, 4]];
const PERSONAL = ["personal_train_loss", "personal_train_accuracy", "personal_test_accuracy"];

const AXES = [
  { key: "round", title: "Rounds", unit: "rounds, or updates of the server", text: whole },
  { key: "megabytes", title: "Bytes", unit: "megabytes sent, up and down", text: megabytes },
  { key: "local_steps", title: "Local steps", unit: "local steps", text: whole },
  { key: "wall_time", title: "Wall time", unit: "seconds", text: seconds },
  { key: "time", title: "Virtual time", unit: "virtual time (s)", text: virtual },
];

const seriesOf = (data) => {
  const several = data.runs.length > 1;
  const found = data.runs.flatMap((run) => run.methods.map((method) => ({ run, method })));
  return found.map(({ run, method }) => {
    const columns = { ...method.columns };
    const up = columns.bytes_up ?? [],
      down = columns.bytes_down ?? [];
    columns.megabytes = (columns.round ?? []).map((_, k) => ((up[k] ?? 0) + (down[k] ?? 0)) / 1e6);
    return {
      id: `${run.path} ${method.label}`,
      label: several ? `${run.name}: ${method.label}` : method.label,
      colour: method.colour,
      dash: DASHES[method.dash],
      run,
      method,
      columns,
      last: Object.fromEntries(Object.entries(columns).map(([name, values]) => [name, values.at(-1)])),
    };
  });
};

const has = (series, name) => series.some((one) => one.columns[name]?.some(known));
// Those along which a run has moved; a run that has just begun has its rounds.
const axesOf = (series) =>
  AXES.filter(({ key }) => key === "round" || series.some((one) => one.columns[key]?.some((value) => value > 0)));
const everywhere = (series, test) =>
  series.every((one) => (one.columns.round ?? []).every((_, k) => test(one.columns, k)));
const close = (a, b) =>
  known(a) === known(b) && (!known(a) || Math.abs(a - b) <= 1e-4 * Math.max(Math.abs(a), Math.abs(b)));

// What is measured decides what is drawn: f where it is not F, the training loss where it is not f.
const panelsOf = (series) => {
  const smooth = !everywhere(series, (c, k) => !c.g || close(c.g[k], 0) || c.g[k] === 0);
  const losses = !everywhere(series, (c, k) => !c.train_loss || !c.f || close(c.train_loss[k], c.f[k]));
  const sparse = series.some((one) => one.columns.sparsity?.some((value, k) => value > 0 && one.columns.round[k] > 0));
  const panels = [
    {
      y: "F",
      title: "Objective F",
      note: smooth ? "f + g at the global model" : "at the global model; g = 0, so F = f",
      log: true,
    },
    smooth && { y: "f", title: "Loss f", note: "the smooth part, weighted over clients", log: true },
    losses && { y: "train_loss", title: "Training loss", note: "the mean over all samples", log: true },
    { y: "train_accuracy", title: "Training accuracy", note: "over all samples of all clients", text: share },
    { y: "test_accuracy", title: "Test accuracy", note: "over all test samples", text: share },
    { y: "gradient_mapping", title: "Gradient mapping", note: "its norm; 0 at a stationary point", log: true },
    sparse && { y: "sparsity", title: "Zeros in the model", note: "share of exact zeros where g acts", text: share },
    { y: "staleness_mean", title: "Staleness", note: "mean age of updates, in versions of the model" },
    { y: "prox_error", title: "Prox error", note: "largest certified since the last evaluation", log: true },
    { y: "personal_train_loss", title: "Training loss", note: "each client's own model on its own data", log: true },
    {
      y: "personal_train_accuracy",
      title: "Training accuracy",
      note: "each client's own model on its own data",
      text: share,
    },
    {
      y: "personal_test_accuracy",
      title: "Test accuracy",
      note: "each client's own model on its own data",
      text: share,
    },
  ];
  return [...panels, ...furtherPanels(series)].filter((panel) => panel && has(series, panel.y));
};

const swatch = (one) =>
  svg(
    "svg",
    { class: `swatch c${one.colour}`, viewBox: "0 0 30 10", width: 30, height: 10, "aria-hidden": "true" },
    svg("line", { x1: 1, y1: 5, x2: 29, y2: 5, "stroke-dasharray": one.dash.join(" ") || null }),
  );
const named = (one) => el("span", { class: "named" }, swatch(one), el("span", {}, one.label));
