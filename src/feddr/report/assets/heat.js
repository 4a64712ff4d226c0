// The data of the clients: a row for each, with a bar for its samples and a cell for each of its labels.

class Heat {
  constructor(clients) {
    this.clients = clients;
    this.rows = clients.names.length;
    this.height = Math.min(Math.max(this.rows * 18, 60), Math.max(420, Math.min(this.rows * 2, 700)));
    this.shares = clients.counts.map((counts) => {
      const all = counts.reduce((a, b) => a + b, 0);
      return counts.map((count) => (all ? count / all : 0));
    });
    const sorted = this.shares.flat().sort((a, b) => a - b);
    this.top = Math.max(sorted[Math.floor(0.995 * (sorted.length - 1))] ?? 1, 0.01); // a few extremes leave the rest some colour
    this.canvas = el("canvas", {});
    this.tip = el("div", { class: "tip", hidden: true });
    const words = `Samples and labels of ${plural(clients.total, "client")}, the largest first. Arrow keys read its cells.`;
    this.box = el(
      "div",
      { class: "plot heat", tabindex: 0, role: "group", "aria-roledescription": "heat map", "aria-label": words },
      this.canvas,
    );
    this.frame = el("div", { class: "frame" }, this.box, this.tip);
    this.box.addEventListener("pointermove", (event) => this.point(event));
    this.box.addEventListener("pointerleave", () => this.select(null));
    this.box.addEventListener("blur", () => this.select(null));
    this.box.addEventListener("focus", () => this.box.matches(":focus-visible") && this.select([0, 0], true));
    this.box.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.draw()).observe(this.box);
  }

  get layout() {
    const width = this.box.clientWidth,
      narrow = width < 560,
      step = this.height / this.rows;
    const ctx = this.canvas.getContext("2d");
    ctx.font = this.font(step);
    const names =
      step >= 11
        ? Math.min(narrow ? 74 : 130, 9 + Math.max(...this.clients.names.map((name) => ctx.measureText(name).width)))
        : 0;
    const bars = narrow ? 64 : 180;
    const left = names + bars + 14;
    return { width, step, names, bars, left, cell: (width - left) / Math.max(1, this.clients.columns.length) };
  }

  font(step) {
    return `${Math.min(12, Math.max(9, step - 4))}px system-ui, sans-serif`;
  }

  draw() {
    const { width, step, names, bars, left, cell } = this.layout;
    if (!width) return;
    const ratio = devicePixelRatio,
      below = 34;
    this.canvas.width = width * ratio;
    this.canvas.height = (this.height + below) * ratio;
    this.canvas.style.height = `${this.height + below}px`;
    const ctx = this.canvas.getContext("2d");
    ctx.scale(ratio, ratio);
    ctx.font = this.font(step);
    ctx.textBaseline = "middle";
    const { train, test } = this.clients;
    const most = Math.max(...train.map((count, i) => count + test[i]));
    const gap = step >= 6 ? 1 : 0;
    for (let i = 0; i < this.rows; i += 1) {
      const y = i * step;
      if (names) {
        ctx.fillStyle = palette.text;
        ctx.fillText(clipped(ctx, this.clients.names[i], names - 8), 0, y + step / 2);
      }
      const long = (train[i] / most) * bars,
        longer = (test[i] / most) * bars;
      ctx.fillStyle = palette.accent;
      ctx.fillRect(names, y + gap, long, step - 2 * gap);
      ctx.fillStyle = palette.test;
      ctx.fillRect(names + long, y + gap, longer, step - 2 * gap);
      this.shares[i].forEach((value, j) => {
        ctx.globalAlpha = 0.04 + 0.96 * Math.min(1, value / this.top);
        ctx.fillStyle = palette.heat;
        ctx.fillRect(left + j * cell, y + gap / 2, cell - (cell >= 6 ? 1 : 0), step - gap);
      });
      ctx.globalAlpha = 1;
    }
    this.labels(ctx, left, cell, names);
    if (this.chosen) {
      const [i, j] = this.chosen;
      ctx.strokeStyle = palette.ink;
      ctx.lineWidth = 2;
      ctx.strokeRect(left + j * cell, i * step, Math.max(cell - 1, 3), Math.max(step, 3));
    }
  }

  labels(ctx, left, cell, names) {
    ctx.font = FONT;
    ctx.fillStyle = palette.text;
    ctx.textAlign = "center";
    const texts = this.clients.columns,
      wide = Math.max(...texts.map((text) => ctx.measureText(text).width)) + 8;
    const every = Math.max(1, Math.ceil(wide / cell));
    texts.forEach(
      (text, j) =>
        j % every === 0 &&
        ctx.fillText(clipped(ctx, text, every * cell), left + (j + 0.5) * cell - 0.5, this.height + 14),
    );
    ctx.textAlign = "left";
    ctx.fillText("samples", names, this.height + 14);
  }

  point(event) {
    const { step, left, cell } = this.layout,
      from = this.canvas.getBoundingClientRect();
    const i = Math.floor((event.clientY - from.top) / step),
      j = Math.floor((event.clientX - from.left - left) / cell);
    this.select(i >= 0 && i < this.rows ? [i, Math.min(Math.max(j, 0), this.clients.columns.length - 1)] : null);
  }

  key(event) {
    const [i, j] = this.chosen ?? [0, 0];
    const moves = {
      ArrowUp: [i - 1, j],
      ArrowDown: [i + 1, j],
      ArrowLeft: [i, j - 1],
      ArrowRight: [i, j + 1],
      Home: [0, j],
      End: [Infinity, j],
    };
    if (event.key === "Escape") this.select(null);
    if (!moves[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    const within = (value, size) => Math.min(Math.max(value, 0), size - 1);
    this.select(
      [within(moves[event.key][0], this.rows), within(moves[event.key][1], this.clients.columns.length)],
      true,
    );
  }

  select(chosen, aloud = false) {
    if (String(chosen) === String(this.chosen ?? null)) return;
    this.chosen = chosen;
    this.tip.hidden = chosen === null;
    this.draw();
    if (chosen === null) return;
    const [i, j] = chosen,
      { clients } = this,
      { step, left, cell } = this.layout;
    const count = `${whole(clients.train[i])} training, ${whole(clients.test[i])} test`;
    const label = `label ${clients.columns[j]}: ${whole(clients.counts[i][j])}, ${share(this.shares[i][j])}`;
    put(this.tip, el("p", {}, clients.names[i]), el("div", {}, count), el("div", {}, label));
    place(this.tip, this.canvas, this.frame, left + (j + 0.5) * cell, (i + 0.5) * step);
    if (aloud) say(`${clients.names[i]}: ${count}; ${label}`);
  }
}

const clipped = (ctx, text, room) => {
  if (ctx.measureText(text).width <= room) return text;
  let end = text.length;
  while (end > 1 && ctx.measureText(`${text.slice(0, end)}…`).width > room) end -= 1;
  return `${text.slice(0, end)}…`;
};
