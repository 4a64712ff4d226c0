// How often clients took part, or how stale they were, a chart for each method.

const bars = (series, title, pick, data) => {
  if (!series.length) return null;
  const cards = series.map((one) => {
    const chart = new Bars(one, title, pick(one.method.participation), data);
    drawn.push(chart);
    return chart.card;
  });
  return [
    el("h3", { class: "group" }, title),
    el("div", { class: cards.length === 2 || cards.length === 4 ? "grid even" : "grid" }, cards),
  ];
};

// One bar for each client, or for neighbours where there are too many.
class Bars {
  constructor(one, title, values, data) {
    const part = one.method.participation;
    const most = title.startsWith("Staleness") ? part.most : null;
    this.box = el("div", {
      class: "plot",
      tabindex: 0,
      role: "group",
      "aria-roledescription": "chart",
      "aria-label": `${title}: ${one.label}. Arrow keys read its values.`,
    });
    this.tip = el("div", { class: "tip", hidden: true });
    this.card = el(
      "article",
      { class: "card chart" },
      el("header", {}, el("div", {}, el("h4", {}, named(one)), most && el("p", {}, "bar: mean, mark: largest"))),
      el("div", { class: "frame" }, this.box, this.tip),
    );
    const line = {
      stroke: () => palette.text,
      grid: { stroke: () => palette.grid, width: 1 },
      ticks: { show: false },
      font: FONT,
    };
    const colour = () => palette.lines[one.colour];
    const places = part.first.map((_, i) => i);
    const name = (i) => this.name(one.run, part, i);
    const read = () => {
      const i = this.plot?.cursor.idx;
      this.tip.hidden = i == null || this.plot.cursor.left < 0;
      if (this.tip.hidden) return;
      const text = [
        most ? `mean ${number(values[i])}` : plural(values[i] ?? 0, "update"),
        most && `largest ${number(most[i])}`,
      ]
        .filter(Boolean)
        .join(", ");
      put(this.tip, el("p", {}, name(i)), el("div", {}, text));
      place(this.tip, this.plot.over, this.tip.parentElement, this.plot.cursor.left, this.plot.cursor.top);
      if (document.activeElement === this.box) say(`${name(i)}: ${text}`);
    };
    this.plot = new uPlot(
      {
        width: 300,
        height: 190,
        legend: { show: false },
        padding: [10, 12, 0, 0],
        cursor: { drag: { x: false }, y: false, points: { show: false } },
        scales: {
          x: { time: false, range: () => [-0.6, places.length - 0.4] },
          y: { range: (u, low, high) => [0, (high || 1) * 1.06] },
        },
        axes: [
          {
            ...line,
            size: 28,
            gap: 5,
            label: "Client",
            labelSize: 18,
            labelGap: 0,
            labelFont: FONT,
            splits: marks(false, 60, true),
            filter: (u, all) => all,
            values: (u, all) => all.map((i) => (i >= 0 ? short(part.first[i] ?? i) : "")),
          },
          {
            ...line,
            size: widest,
            gap: 6,
            splits: marks(false, 32, false),
            values: (u, all) => all.map(short),
            filter: (u, all) => all,
          },
        ],
        series: [
          {},
          {
            stroke: colour,
            fill: colour,
            width: 0,
            paths: uPlot.paths.bars({ size: [0.8, 40], radius: 0.08 }),
            points: { show: false },
          },
          ...(most
            ? [
                {
                  stroke: () => palette.ink,
                  width: 0,
                  paths: () => null,
                  points: { show: true, size: 5, width: 1.5, stroke: () => palette.ink, fill: () => palette.card },
                },
              ]
            : []),
        ],
        hooks: { setCursor: [read] },
      },
      [places, values, ...(most ? [most] : [])],
      this.box,
    );
    this.index = 0;
    this.box.addEventListener("focus", () => this.box.matches(":focus-visible") && moveTo(this, this.index));
    this.box.addEventListener("blur", () => leave(this));
    this.box.addEventListener("keydown", (event) => {
      const jump = { ArrowRight: this.index + 1, ArrowLeft: this.index - 1, Home: 0, End: Infinity }[event.key];
      if (jump === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      moveTo(this, jump);
    });
    new ResizeObserver(
      () => this.box.clientWidth > 0 && this.plot.setSize({ width: this.box.clientWidth, height: 190 }),
    ).observe(this.box);
  }

  name(run, part, i) {
    if (part.first.length < part.clients)
      return `clients ${part.first[i]} to ${(part.first[i + 1] ?? part.clients) - 1}`;
    const named = run.clients && run.clients.names.length === run.clients.total;
    return named ? (run.clients.names[run.clients.places.indexOf(i)] ?? `client ${i}`) : `client ${i}`;
  }

  draw() {
    this.plot.redraw();
  }
}
