// What a run was asked to do, and how to do it again.

const SEEDS = ["seed", "init_seed", "data.seed"];

const CLOCK = ["updates", "evaluate_every_updates", "concurrency", "deadline"];

const drawSettings = (data, series) => {
  const value = (run, key) => run.settings.find(([name]) => name === key)?.[1];
  const clock = data.runs.some((run) => value(run, "engine") === "clock");
  const keys = [...new Set(data.runs.flatMap((run) => run.settings.map(([key]) => key)))].filter(
    (key) =>
      key !== "name" &&
      (clock || !CLOCK.includes(key)) &&
      data.runs.some((run) => (value(run, key) ?? "none") !== "none"),
  );
  const seeds = keys.filter((key) => SEEDS.includes(key)),
    rest = keys.filter((key) => !SEEDS.includes(key));
  put(
    byId("settings-body"),
    data.runs.length === 1 ? pairs(data.runs[0], seeds, rest, value) : matrix(data.runs, [...seeds, ...rest], value),
    methods(series),
  );
};

const pairs = (run, seeds, rest, value) => [
  seeds.length > 0 &&
    el(
      "dl",
      { class: "seeds" },
      seeds.map((key) => el("div", { class: "card tile" }, el("dt", {}, key), el("dd", {}, value(run, key)))),
    ),
  el(
    "article",
    { class: "card" },
    el(
      "dl",
      { class: "pairs" },
      rest.map((key) =>
        el(
          "div",
          { class: value(run, key).length > 40 ? "long" : value(run, key).length > 14 ? "mid" : null },
          el("dt", {}, key),
          el("dd", {}, value(run, key)),
        ),
      ),
    ),
  ),
];

const matrix = (runs, keys, value) => {
  const differs = (key) => new Set(runs.map((run) => value(run, key))).size > 1;
  const row = (key) =>
    el(
      "tr",
      { class: [SEEDS.includes(key) && "seed", differs(key) && "differs"].filter(Boolean).join(" ") || null },
      el("th", { scope: "row" }, key, differs(key) && el("span", { class: "badge" }, "differs")),
      runs.map((run) => el("td", {}, value(run, key) ?? "–")),
    );
  return sideways(
    "card wide-table",
    "Settings, a table that may scroll sideways",
    tableOf("settings", ["Setting", ...runs.map((run) => run.name)], keys.map(row)),
  );
};

// What all methods share is in the settings above; here is what they have for themselves.
const methods = (series) => {
  const part = (one, kind) => one.method.settings[kind] ?? "";
  const own = ["local", "sampling"].filter((kind) => new Set(series.map((one) => part(one, kind))).size > 1);
  const row = (one) =>
    el(
      "tr",
      {},
      el("th", { scope: "row" }, named(one)),
      [part(one, "algorithm") || one.method.entry, ...own.map((kind) => part(one, kind))].map((text) =>
        el("td", {}, el("code", {}, text)),
      ),
    );
  const titles = [series.length > 1 ? "Methods" : "Method", "algorithm", ...own];
  return sideways(
    "card wide-table",
    "Methods, a table that may scroll sideways",
    tableOf("settings", titles, series.map(row)),
  );
};

const drawAgain = (data) => {
  const block = (run) => {
    const [again, resume] = run.commands;
    return el(
      "article",
      { class: "card" },
      data.runs.length > 1 && el("header", {}, el("h3", {}, run.name)),
      again
        ? [
            el(
              "p",
              {},
              run.config
                ? "The same config and seeds give the same numbers, on any number of threads:"
                : "It was started from Python, with a problem of its own:",
            ),
            copyable(again, "the command that runs it again"),
          ]
        : el("p", {}, "It was deployed over Flower; its app, with these settings, runs it again."),
      resume && [
        el("p", {}, "It has not ended yet; this resumes it from its last checkpoint:"),
        copyable(resume, "the command that resumes it"),
      ],
      run.config &&
        el(
          "details",
          {},
          el("summary", {}, "The config, with all defaults filled in"),
          copyable(run.config, "the config"),
        ),
    );
  };
  put(byId("again-body"), data.runs.map(block));
};
