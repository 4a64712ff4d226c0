// What the charts have in common: the axis below them, and which lines are shown.

const drawControls = (series) => {
  const choice = (axis) =>
    el(
      "label",
      { class: "choice" },
      el("input", {
        type: "radio",
        name: "x",
        value: axis.key,
        checked: axis.key === state.x,
        onchange: () => setAxis(axis.key),
      }),
      el("span", {}, axis.title),
    );
  const logX = el(
    "button",
    { type: "button", class: "quiet", id: "log-x", "aria-pressed": state.logX, onclick: switchLogX },
    "Log axis",
  );
  const reset = el(
    "button",
    { type: "button", class: "quiet", id: "reset", hidden: !charts.some((one) => one.zoomed), onclick: zoomOut },
    "Zoom out",
  );
  const chips = el("div", { class: "chips", role: "group", "aria-label": "Lines shown" }, series.map(chip));
  const all =
    series.length > 2 &&
    el("button", { type: "button", class: "quiet", id: "all", onclick: () => showAll(series) }, "Show all");
  put(
    byId("controls"),
    el(
      "div",
      { class: "row" },
      el("fieldset", { class: "segments" }, el("legend", {}, "Against"), axesOf(series).map(choice)),
      logX,
      reset,
    ),
    series.length > 1 && el("div", { class: "row" }, chips, all),
  );
  paintChips();
};

const chip = (one, i) =>
  el(
    "button",
    {
      type: "button",
      class: `chip c${one.colour}`,
      "data-id": one.id,
      title: i < 9 ? `Show or hide, key ${i + 1}` : "Show or hide",
      onclick: (event) => toggle(one.id, event.shiftKey),
      onpointerenter: () => raise(one.id),
      onpointerleave: () => raise(null),
      onfocus: (event) => event.target.matches(":focus-visible") && raise(one.id),
      onblur: () => raise(null),
    },
    named(one),
  );

const raise = (id) => {
  for (const chart of charts) chart.raise(id !== null && state.hidden.has(id) ? null : id);
};

const paintChips = () => {
  for (const button of document.querySelectorAll(".chip"))
    button.setAttribute("aria-pressed", !state.hidden.has(button.dataset.id));
  const all = byId("all");
  if (all) all.disabled = state.hidden.size === 0;
};

// With the shift key the others go, or come back where this is the only one already.
const toggle = (id, alone = false) => {
  const ids = [...document.querySelectorAll(".chip")].map((button) => button.dataset.id);
  const only = ids.every((other) => state.hidden.has(other) === (other !== id));
  const hidden = alone ? new Set(only ? [] : ids.filter((other) => other !== id)) : new Set(state.hidden);
  if (!alone) hidden[hidden.has(id) ? "delete" : "add"](id);
  apply(hidden);
};

const showAll = () => apply(new Set());

const apply = (hidden) => {
  const changed = [...new Set([...hidden, ...state.hidden])].filter((id) => hidden.has(id) !== state.hidden.has(id));
  state.hidden = hidden;
  for (const chart of charts)
    for (const id of changed) if (chart.series.some((one) => one.id === id)) chart.show(id, !hidden.has(id));
  paintChips();
  if (changed.length === 1) {
    const one = charts[0]?.series.find((other) => other.id === changed[0]);
    if (one) say(`${one.label} ${hidden.has(one.id) ? "hidden" : "shown"}.`);
  }
};

const setAxis = (key) => {
  state.x = key;
  for (const chart of charts) chart.draw(chart.series);
  say(`Against ${AXES.find((axis) => axis.key === key).title.toLowerCase()}.`);
};

const switchLogX = () => {
  state.logX = !state.logX;
  byId("log-x").setAttribute("aria-pressed", state.logX);
  for (const chart of charts) chart.draw(chart.series);
  say(state.logX ? "Logarithmic axis, without what is at 0." : "Linear axis.");
};

const drawCharts = (series) => {
  const clock = has(series, "staleness_mean") && series.every((one) => has([one], "time"));
  if (!has(series, state.x)) state.x = clock ? "time" : "round"; // updates and rounds are not to be compared
  const panels = panelsOf(series);
  const groups = [
    ["", panels.filter((one) => !PERSONAL.includes(one.y))],
    ["Each client's own model", panels.filter((one) => PERSONAL.includes(one.y))],
  ];
  for (const chart of charts) chart.plot.destroy();
  charts.length = 0;
  put(
    byId("charts"),
    groups
      .filter(([, some]) => some.length)
      .map(([title, some]) => {
        const made = some.map((panel) => new Chart(panel, series));
        charts.push(...made);
        const grid = el(
          "div",
          { class: made.length === 2 || made.length === 4 ? "grid even" : "grid" },
          made.map((chart) => chart.card),
        );
        return title
          ? [
              el("h3", { class: "group" }, title),
              el(
                "p",
                { class: "hint" },
                "These answer another question than the charts above, which are all at the global model; do not compare the two.",
              ),
              grid,
            ]
          : grid;
      })
      .flat(),
  );
  for (const chart of charts) chart.fit();
};

byId("curves").addEventListener("keydown", (event) => {
  const place = Number(event.key) - 1,
    chips = document.querySelectorAll(".chip");
  if (event.ctrlKey || event.metaKey || event.altKey || !(place >= 0 && place < chips.length && place < 9)) return;
  toggle(chips[place].dataset.id);
});
