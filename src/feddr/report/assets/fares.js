// How each client fares with the global model at the last evaluation, from the worst to the best.

const PREFERRED = ["test_accuracy", "train_accuracy", "test_loss", "train_loss"];
let shownFares = "";

const drawFares = (series) => {
  const measured = series.filter((one) => Object.keys(one.method.client_metrics?.metrics ?? {}).length);
  const what = JSON.stringify(measured.map((one) => one.method.client_metrics));
  if (what === shownFares) return;
  shownFares = what;
  byId("fares").hidden = !measured.length;
  if (!measured.length) return;
  const names = [...new Set(measured.flatMap((one) => Object.keys(one.method.client_metrics.metrics)))];
  const shown = PREFERRED.find((name) => names.includes(name)) ?? names[0];
  const having = measured.filter((one) => one.method.client_metrics.metrics[shown]);
  put(
    byId("fares-body"),
    fareTable(measured, names),
    el("h3", { class: "group" }, `${wordsOf(shown)} of each client, the worst first`),
    el(
      "div",
      { class: having.length === 2 || having.length === 4 ? "grid even" : "grid" },
      having.map((one) => fareCard(one, shown, Math.max(...having.flatMap((other) => metricOf(other, shown).values)))),
    ),
  );
};

const metricOf = (one, name) => one.method.client_metrics.metrics[name];
const wordsOf = (name) => {
  const text = name.replaceAll("_", " ");
  return text[0].toUpperCase() + text.slice(1);
};
const fareText = (name) => (name.endsWith("accuracy") ? share : number);

const fareTable = (series, names) => {
  const titles = ["Method", "Metric", "Clients", "Worst", "One in ten is worse than", "Median", "Best"];
  const row = (one, name) => {
    const found = metricOf(one, name),
      text = fareText(name);
    const cells = [whole(found.total), text(found.worst), text(found.p10), text(found.median), text(found.best)];
    return el(
      "tr",
      {},
      el("th", { scope: "row" }, named(one)),
      [wordsOf(name), ...cells].map((cell) => el("td", {}, cell)),
    );
  };
  const rows = names.flatMap((name) => series.filter((one) => metricOf(one, name)).map((one) => row(one, name)));
  return sideways(
    "card wide-table",
    "Metrics of clients, a table that may scroll sideways",
    tableOf("results", titles, rows),
  );
};

// A bar for each client, drawn without a canvas: it needs no painting in another theme.
const fareCard = (one, name, most) => {
  const found = metricOf(one, name),
    text = fareText(name),
    count = found.values.length,
    top = most > 0 ? most : 1;
  const high = (value) => (100 * Math.max(0, value)) / top;
  const bar = (value, i) =>
    svg(
      "rect",
      { x: i + 0.06, width: 0.88, y: 100 - high(value), height: Math.max(high(value), 0.6) },
      svg("title", {}, `client ${found.clients[i]}: ${text(value)}`),
    );
  const line = (kind, value) =>
    svg("line", { class: kind, x1: 0, x2: count, y1: 100 - high(value), y2: 100 - high(value) });
  const words = `worst ${text(found.worst)}, median ${text(found.median)} (line), one client in ten is worse than ${text(found.p10)} (dashes)`;
  return el(
    "article",
    { class: "card chart" },
    el("header", {}, el("div", {}, el("h4", {}, named(one)), el("p", {}, words))),
    svg(
      "svg",
      {
        class: `fares c${one.colour}`,
        viewBox: `0 0 ${count} 100`,
        preserveAspectRatio: "none",
        role: "img",
        "aria-label": `${wordsOf(name)} of ${plural(found.total, "client")} of ${one.label}: ${words}`,
      },
      found.values.map(bar),
      line("median", found.median),
      line("tenth", found.p10),
    ),
  );
};

// The metrics that runs were asked for, in charts and in the table of results.
const furtherOf = (series) => Object.assign({}, ...series.map((one) => one.method.metrics ?? {}));
const furtherPanels = (series) =>
  Object.keys(furtherOf(series)).map((name) => ({
    y: name,
    title: wordsOf(name),
    note: "at the global model",
    ...(name.endsWith("accuracy") ? { text: share } : {}),
  }));
const furtherMeasures = (series) =>
  Object.entries(furtherOf(series)).map(([name, better]) => ({
    key: name,
    title: wordsOf(name),
    text: fareText(name),
    best: { min: Math.min, max: Math.max }[better],
  }));
