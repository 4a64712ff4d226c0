// Who has which data, who took part how often, and how old updates were when they arrived.

let drawn = []; // what has a canvas, to be painted again in another theme
let shownClients = "";

const drawClients = (data, series) => {
  const taking = series.filter((one) => one.method.participation);
  const federations = [
    ...new Map(data.runs.filter((run) => run.clients).map((run) => [JSON.stringify(run.clients), run])).values(),
  ];
  const what = JSON.stringify([federations.map((run) => run.clients), taking.map((one) => one.method.participation)]);
  if (what === shownClients) return;
  shownClients = what;
  for (const one of drawn) one.plot?.destroy();
  drawn = [];
  byId("clients").hidden = !taking.length && !federations.length;
  put(
    byId("clients-body"),
    federations.map((run) => dataCard(run, federations.length > 1)),
    taking.length ? partTable(taking) : null,
    bars(
      taking.filter((one) => differ(one.method.participation.by_client)),
      "Updates by client",
      (part) => part.by_client,
      data,
    ),
    bars(
      taking.filter((one) => one.method.participation.staleness),
      "Staleness by client",
      (part) => part.mean,
      data,
    ),
  );
};

const differ = (values) => Math.max(...values) > Math.min(...values);
const range = ([low, middle, high], text = whole) =>
  low === high ? text(low) : `${text(low)} to ${text(high)}, median ${text(middle)}`;

const dataCard = (run, several) => {
  const { clients } = run,
    heat = new Heat(clients);
  drawn.push(heat);
  const grouped = clients.names.length < clients.total ? " Rows are means of neighbours in size." : "";
  const facts = [
    `${plural(clients.total, "client")} with ${whole(clients.samples.train)} training and ${whole(clients.samples.test)} test samples`,
    `${range(clients.size)} training samples each`,
    clients.columns.length > 1 &&
      `label skew ${range(clients.skew, (value) => value.toFixed(2))}, where 0 is everyone's labels and 1 nothing in common`,
  ];
  return card(
    several ? `Data of ${run.name}` : "Data",
    [`${facts.filter(Boolean).join("; ")}.${grouped}`],
    heat.frame,
    el(
      "div",
      { class: "key" },
      key("train", "training"),
      key("test", "test"),
      key("heat", "share of a client's samples with a label"),
    ),
  );
};

// A card with a title, a note if there is one, and a key beside them.
const card = (title, note, body, key) =>
  el(
    "article",
    { class: "card" },
    el("header", {}, el("div", {}, el("h3", {}, title), note && el("p", {}, note)), key),
    body,
  );

const key = (kind, text) => el("span", {}, el("i", { class: `block ${kind}`, "aria-hidden": "true" }), text);

const partTable = (series) => {
  const stale = series.some((one) => one.method.participation.staleness);
  const titles = [
    "Method",
    "Took part",
    "Updates in all",
    "Updates of a client",
    stale && "Mean staleness",
    stale && "Largest",
  ].filter(Boolean);
  const row = (one) => {
    const part = one.method.participation,
      age = part.staleness;
    const cells = [`${group(part.active)} of ${group(part.clients)}`, whole(part.total), range(part.updates)];
    const ages = stale ? (age ? [number(age[0]), whole(age[1])] : ["0", "0"]) : [];
    return el(
      "tr",
      {},
      el("th", { scope: "row" }, named(one)),
      [...cells, ...ages].map((text) => el("td", {}, text)),
    );
  };
  const partial = series.filter(
    (one) => one.method.participation.staleness && one.method.participation.measured < one.method.participation.total,
  );
  return card(
    "Participation",
    stale && [
      "Staleness is how often the model had changed between an update's start and its arrival.",
      partial.length
        ? ` It is known of the updates that were recorded: ${partial.map((one) => `${group(one.method.participation.measured)} of ${one.label}`).join(", ")}.`
        : "",
    ],
    sideways(
      "wide-table",
      "Participation, a table that scrolls sideways",
      tableOf("results", titles, series.map(row)),
    ),
  );
};
