// A chart is a card with a title, a switch for its scale, and the lines that are shown.

const state = { x: null, logX: false, hidden: new Set(), logs: new Map(), wide: new Set() };
const charts = [];
let palette = {};

const readPalette = () => {
  const style = getComputedStyle(document.documentElement);
  const of = (name) => style.getPropertyValue(name).trim();
  palette = {
    text: of("--muted"),
    grid: of("--grid"),
    card: of("--card"),
    heat: of("--heat"),
    ink: of("--text"),
    accent: of("--accent"),
    test: of("--c1"),
    lines: Array.from({ length: COLOURS }, (_, i) => of(`--c${i}`)),
  };
};

const points = (one, panel, log) => {
  const xs = one.columns[state.x] ?? [],
    ys = one.columns[panel.y] ?? [];
  const kept = [[], []];
  for (let k = 0; k < xs.length; k += 1) {
    if (!known(xs[k]) || !known(ys[k]) || (state.logX && xs[k] <= 0) || (log && ys[k] <= 0)) continue;
    kept[0].push(xs[k]);
    kept[1].push(ys[k]);
  }
  return kept;
};

// Logarithmic where that shows more: all values above 0, and over a factor of two.
const logByNature = (panel, series) => {
  const values = series.flatMap((one) => one.columns[panel.y] ?? []).filter(known);
  const low = values.reduce((a, b) => Math.min(a, b), Infinity),
    high = values.reduce((a, b) => Math.max(a, b), -Infinity);
  return Boolean(panel.log) && low > 0 && high >= 2 * low;
};

class Chart {
  constructor(panel, series) {
    this.panel = panel;
    this.key = panel.y;
    this.box = el("div", { class: "plot", tabindex: 0, role: "group", "aria-roledescription": "chart" });
    this.tip = el("div", { class: "tip", hidden: true });
    this.scale = el(
      "button",
      { type: "button", class: "quiet small", title: "Logarithmic scale", onclick: () => this.switchScale() },
      "log",
    );
    this.size = el(
      "button",
      { type: "button", class: "quiet small wider", title: "Larger chart", onclick: () => this.switchSize() },
      "⤢",
    );
    const id = `chart-${panel.y}`;
    this.card = el(
      "article",
      { class: "card chart", "aria-labelledby": id },
      el("header", {}, el("div", {}, el("h3", { id }, panel.title), el("p", {}, panel.note)), this.scale, this.size),
      el("div", { class: "frame" }, this.box, this.tip),
    );
    listen(this);
    this.draw(series);
    new ResizeObserver(() => this.fit()).observe(this.box);
  }

  get log() {
    return state.logs.get(this.key) ?? logByNature(this.panel, this.series);
  }

  get axis() {
    return AXES.find((axis) => axis.key === state.x);
  }

  draw(series) {
    this.series = series;
    this.plot?.destroy();
    const { log, axis, panel } = this;
    this.data = uPlot.join(series.map((one) => points(one, panel, log)));
    const size = { width: Math.max(this.box.clientWidth, 200), height: this.height };
    this.plot = new uPlot({ ...size, ...this.options(log, axis, series) }, this.data, this.box);
    this.drawnLog = log;
    this.card.hidden = !this.data[0].length;
    this.card.classList.toggle("wide", state.wide.has(this.key));
    for (const [button, on, words] of [
      [this.scale, log, "Logarithmic scale"],
      [this.size, state.wide.has(this.key), "Larger chart"],
    ]) {
      button.setAttribute("aria-pressed", on);
      button.setAttribute("aria-label", `${words}: ${panel.title}`);
    }
    const scales = `${log ? "Logarithmic scale. " : ""}Arrow keys read its values.`;
    this.box.setAttribute("aria-label", `${panel.title} against ${axis.title.toLowerCase()}. ${scales}`);
    this.tip.hidden = true;
  }

  options(log, axis, series) {
    const line = {
      stroke: () => palette.text,
      grid: { stroke: () => palette.grid, width: 1 },
      ticks: { show: false },
      font: FONT,
    };
    const values =
      this.panel.text === share
        ? (u, all) => all.map((v) => `${Number((100 * v).toPrecision(4))} %`)
        : (u, all) => all.map(short);
    return {
      legend: { show: false },
      padding: [10, 12, 0, 0],
      cursor: {
        sync: {
          key: "charts",
          setSeries: false,
          scales: ["x", null],
          filters: { pub: (type) => MOVES.includes(type) },
        },
        drag: { x: true, y: false, setScale: false },
        bind: { dblclick: () => zoomOut },
        focus: { prox: -1 },
        points: { size: 8, width: 2, fill: (u, i) => palette.lines[series[i - 1].colour], stroke: () => palette.card },
        dataIdx: nearest,
      },
      focus: { alpha: 0.2 },
      scales: {
        x: { time: false, distr: state.logX ? 3 : 1, range: tight(state.logX) },
        y: { distr: log ? 3 : 1, range: padded(log, this.panel.text === share ? 1 : Infinity) },
      },
      axes: [
        {
          ...line,
          size: 28,
          gap: 5,
          label: axis.key === "round" && !has(series, "staleness_mean") ? "rounds" : axis.unit,
          labelSize: 18,
          labelGap: 0,
          labelFont: FONT,
          splits: marks(state.logX, 70, state.x === "round"),
          values: (u, all) => all.map(short),
          filter: (u, all) => all,
        },
        { ...line, size: widest, gap: 6, splits: marks(log, 38, false), values, filter: (u, all) => all },
      ],
      series: [
        {},
        ...series.map((one) => ({
          label: one.label,
          show: !state.hidden.has(one.id),
          stroke: () => palette.lines[one.colour],
          dash: one.dash,
          width: 2,
          spanGaps: true,
          points: {
            show: one.columns.round.length <= 25,
            size: 5,
            width: 1.5,
            fill: () => palette.card,
            stroke: () => palette.lines[one.colour],
          },
        })),
      ],
      hooks: {
        setCursor: [() => hover(this)],
        setSelect: [zoomIn],
        setScale: [(u, key) => key === "x" && zoomed(this)],
      },
    };
  }

  get height() {
    const wide = state.wide.has(this.key) && innerWidth > 700;
    return wide ? 440 : 260;
  }

  fit() {
    const width = this.box.clientWidth;
    if (width > 0 && (width !== this.plot.width || this.height !== this.plot.height))
      this.plot.setSize({ width, height: this.height });
  }

  // The same lines with more points, during a run: colours, order and zoom stay.
  refresh(series) {
    this.series = series;
    if (this.log !== this.drawnLog) {
      this.draw(series);
      return;
    }
    this.data = uPlot.join(series.map((one) => points(one, this.panel, this.log)));
    const { min, max } = this.plot.scales.x,
      whole = !this.zoomed;
    this.plot.setData(this.data, whole);
    if (!whole) this.plot.setScale("x", { min, max });
  }

  switchScale() {
    state.logs.set(this.key, !this.log);
    this.draw(this.series);
  }

  switchSize() {
    state.wide[state.wide.has(this.key) ? "delete" : "add"](this.key);
    this.draw(this.series);
  }

  show(id, on) {
    this.plot.setSeries(this.series.findIndex((one) => one.id === id) + 1, { show: on });
  }

  raise(id) {
    const place = this.series.findIndex((one) => one.id === id) + 1;
    this.plot.setSeries(id === null ? null : place, { focus: id !== null });
  }
}

const MOVES = ["mousemove", "mouseenter", "mouseleave"]; // in which all charts follow one
const FONT = "12px system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif";

const widest = (u, values) => {
  u.ctx.save();
  u.ctx.font = FONT;
  const width = Math.max(0, ...(values ?? []).map((text) => u.ctx.measureText(text).width));
  u.ctx.restore();
  return Math.ceil(width) + 14;
};

// Lines have points at places of their own: the nearest of each is read.
const nearest = (u, line, index) => {
  const ys = u.data[line];
  if (known(ys[index])) return index;
  let left = index - 1,
    right = index + 1;
  while (left >= 0 && !known(ys[left])) left -= 1;
  while (right < ys.length && !known(ys[right])) right += 1;
  if (left < 0 || right >= ys.length) return left < 0 ? (right < ys.length ? right : null) : left;
  const xs = u.data[0];
  return xs[index] - xs[left] <= xs[right] - xs[index] ? left : right;
};
