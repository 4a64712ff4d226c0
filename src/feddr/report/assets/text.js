// Elements and numbers. Texts come from configs and are nobody's markup: they enter the page as text nodes only.

const fill = (node, attributes, children) => {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value != null) node.setAttribute(name, value);
  }
  node.append(...children.flat().filter((child) => child != null && child !== false));
  return node;
};
const el = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);

// A table, and what surrounds one that may be wider than the page.
const tableOf = (kind, titles, rows) =>
  el(
    "table",
    { class: kind },
    el(
      "thead",
      {},
      el(
        "tr",
        {},
        titles.map((title) => el("th", { scope: "col" }, title)),
      ),
    ),
    el("tbody", {}, rows),
  );
// A box that scrolls sideways shows that it does: what lies beyond an edge fades out there, and a line below says so.
const sideways = (kind, label, ...children) => {
  const box = el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": label }, children);
  const hint = el("p", { class: "more", "aria-hidden": "true", hidden: true }, "swipe or scroll sideways for more →");
  const look = () => {
    const rest = box.scrollWidth - box.clientWidth;
    box.classList.toggle("before", box.scrollLeft > 2);
    box.classList.toggle("after", box.scrollLeft < rest - 2);
    hint.hidden = rest <= 2;
  };
  box.addEventListener("scroll", look, { passive: true });
  new ResizeObserver(look).observe(box);
  return el("div", { class: kind }, box, hint);
};
const svg = (tag, attributes = {}, ...children) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
const byId = (id) => document.getElementById(id);
const put = (node, ...children) =>
  node.replaceChildren(...children.flat().filter((child) => child != null && child !== false));

const known = (value) => value != null && Number.isFinite(value);
const group = (value, digits = 0) =>
  value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });

const number = (value) => {
  if (!known(value)) return "–";
  const size = Math.abs(value);
  if (value === 0) return "0";
  if (size >= 1e6 || size < 1e-3)
    return value.toExponential(2).replace("e+", "e").replace("-", "−").replace("e-", "e−");
  const text = size >= 1000 ? group(value, Number.isInteger(value) ? 0 : 1) : String(Number(value.toPrecision(4)));
  return text.replace("-", "−");
};
const share = (value) => (known(value) ? `${(100 * value).toFixed(1)} %` : "–");
const whole = (value) => (known(value) ? group(value, Number.isInteger(value) ? 0 : 1) : "–");
const seconds = (value) => {
  if (!known(value)) return "–";
  if (value < 100) return `${value.toFixed(value < 10 ? 2 : 1)} s`;
  if (value < 6000) return `${Math.floor(value / 60)} min ${Math.round(value % 60)} s`;
  return `${Math.floor(value / 3600)} h ${Math.round((value % 3600) / 60)} min`;
};
const megabytes = (value) => {
  if (!known(value)) return "–";
  if (value > 0 && value < 0.1) return `${Number((value * 1e3).toPrecision(3))} kB`;
  return `${value >= 100 ? group(value) : value.toPrecision(3)} MB`;
};
const virtual = (value) => (known(value) ? `${Number(value.toPrecision(5))} s` : "–");

// Numbers at an axis: short, with a prefix where they are large.
const short = (value) => {
  const size = Math.abs(value);
  if (size >= 1e4 || (size > 0 && size < 1e-3)) {
    for (const [unit, name] of [
      [1e9, "G"],
      [1e6, "M"],
      [1e3, "k"],
    ])
      if (size >= unit && size < 1e12) return `${Number((value / unit).toPrecision(4))}${name}`;
    return value.toExponential().replace("e+", "e").replace("-", "−").replace("e-", "e−");
  }
  return String(Number(value.toPrecision(6))).replace("-", "−");
};

const plural = (count, one, many = `${one}s`) => `${group(count)} ${count === 1 ? one : many}`;

let speaking = 0;
const say = (text) => {
  clearTimeout(speaking);
  speaking = setTimeout(() => put(byId("spoken"), text), 150); // a key held down is not read out
};

const copyable = (text, label) => {
  const button = el("button", { type: "button", class: "copy", "aria-label": `Copy ${label}` }, "Copy");
  const code = el("pre", { tabindex: 0, role: "region", "aria-label": label }, el("code", {}, text));
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
      put(button, "Copied");
      say("Copied.");
    } catch {
      const range = document.createRange();
      range.selectNodeContents(code);
      getSelection().removeAllRanges();
      getSelection().addRange(range);
      put(button, "Selected");
    }
    setTimeout(() => put(button, "Copy"), 2000);
  });
  return el("div", { class: "copyable" }, code, button);
};
