// The head of the page, and where each method ended.

const MEASURES = [
  { key: "round", title: "Rounds", text: whole },
  { key: "F", title: "Objective F", text: number, best: Math.min },
  { key: "train_loss", title: "Training loss", text: number, best: Math.min },
  { key: "train_accuracy", title: "Training accuracy", text: share, best: Math.max },
  { key: "test_accuracy", title: "Test accuracy", text: share, best: Math.max },
  { key: "gradient_mapping", title: "Gradient mapping", text: number, best: Math.min },
  { key: "sparsity", title: "Zeros", text: share, best: Math.max },
  { key: "megabytes", title: "Sent", text: megabytes, best: Math.min },
  { key: "local_steps", title: "Local steps", text: whole, best: Math.min },
  { key: "wall_time", title: "Time", text: seconds, best: Math.min },
  { key: "time", title: "Virtual time", text: virtual, best: Math.min },
];

const drawHead = (data, series) => {
  put(byId("title"), data.title);
  const setting = (run, key) => run.settings.find(([name]) => name === key)?.[1];
  const shared = (key) => {
    const values = new Set(data.runs.map((run) => setting(run, key)));
    return values.size === 1 ? [...values][0] : undefined;
  };
  const clients = new Set(data.runs.map((run) => run.clients?.total ?? run.methods[0]?.settings.clients));
  const seeds = [...new Set(data.runs.map((run) => setting(run, "seed")).filter(Boolean))];
  const facts = [
    data.runs.length > 1 && plural(data.runs.length, "run"),
    plural(series.length, "method"),
    clients.size === 1 && known([...clients][0]) && plural([...clients][0], "client"),
    shared("data") && `data ${shared("data").split("(")[0]}`,
    shared("model") && `model ${shared("model").split("(")[0]}`,
    shared("g") && `g = ${shared("g")}`,
    seeds.length && `${seeds.length > 1 ? "seeds" : "seed"} ${seeds.join(", ")}`,
  ];
  put(
    byId("lead"),
    facts.filter(Boolean).map((fact) => el("span", {}, fact)),
  );
};

const WHOLE = ["finished", "ended"];
const marksOf = (status) => ({ finished: "", ended: "", unfinished: "going", interrupted: "warn" })[status] ?? "bad";

const badge = (method) =>
  WHOLE.includes(method.status) ? null : el("span", { class: `badge ${marksOf(method.status)}` }, method.status);

const drawResults = (series) => {
  const shown = series.filter((one) => known(one.last.round));
  if (!shown.length) {
    put(
      byId("results-body"),
      el("p", { class: "note" }, "No evaluation yet; the first comes when the model has been measured at the start."),
    );
    return;
  }
  const apart = ["data", "model", "g", "weights"].filter(
    (key) => new Set(shown.map((one) => one.run.settings.find(([name]) => name === key)?.[1])).size > 1,
  );
  const ended = apart.length ? [] : shown.filter((one) => WHOLE.includes(one.method.status));
  const lengths = [...new Set(ended.map((one) => one.last.round))].sort((a, b) => a - b);
  const rivals = lengths.length > 1 ? [] : ended;
  const drawn = panelsOf(shown).map((panel) => panel.y);
  const idle = ["train_loss", "sparsity"].filter((key) => !drawn.includes(key)); // F again, or no zeros anywhere
  const measures = [...MEASURES, ...furtherMeasures(shown)].filter(({ key }) => !idle.includes(key) && shown.some((one) => known(one.last[key])));
  const notes = shown
    .filter((one) => one.method.reason)
    .map((one) =>
      el("p", { class: "note bad" }, el("strong", {}, `${one.label} ${one.method.status}. `), one.method.reason),
    );
  if (apart.length) {
    const why = `These runs differ in ${apart.join(", ")}: they solve different problems, and none is marked as the best.`;
    notes.unshift(el("p", { class: "note" }, why));
  }
  if (lengths.length > 1) {
    const why = `These runs are of different length, ${listed(lengths.map(whole))} rounds or updates: none is marked as the best.`;
    notes.unshift(el("p", { class: "note" }, why));
  }
  put(byId("results-body"), shown.length === 1 ? tiles(shown[0], measures) : table(shown, measures, rivals), notes);
};

const tiles = (one, measures) => [
  el("p", { class: "one" }, named(one), badge(one.method)),
  el(
    "dl",
    { class: "tiles" },
    measures.map((measure) =>
      el("div", { class: "card tile" }, el("dt", {}, measure.title), el("dd", {}, measure.text(one.last[measure.key]))),
    ),
  ),
];

const listed = (words) => `${words.slice(0, -1).join(", ")} and ${words.at(-1)}`;

// The best of a column stands out, among methods that have run to their end on one problem, as long as each other.
const table = (series, measures, rivals) => {
  const best = (measure) => {
    const values = rivals.map((one) => one.last[measure.key]).filter(known);
    return measure.best && new Set(values).size > 1 ? measure.best(...values) : NaN;
  };
  const tops = measures.map(best);
  const cell = (one, measure, top) => {
    const value = one.last[measure.key],
      is = value === top && rivals.includes(one);
    return el(
      "td",
      { class: is ? "best" : null },
      is ? el("strong", {}, measure.text(value), el("span", { class: "hidden" }, " (best)")) : measure.text(value),
    );
  };
  const row = (one) =>
    el(
      "tr",
      {},
      el("th", { scope: "row" }, named(one), badge(one.method)),
      measures.map((measure, i) => cell(one, measure, tops[i])),
    );
  return sideways(
    "card wide-table",
    "Results, a table that scrolls sideways",
    tableOf("results", ["Method", ...measures.map((measure) => measure.title)], series.map(row)),
  );
};
