// The page as a whole: its theme, its sections, and newer data during a run.

const THEMES = { auto: "Theme: auto", light: "Theme: light", dark: "Theme: dark" };
const ICONS = { auto: "◐", light: "○", dark: "●" };
const POLL = 1500;

const remember = (key, value) => {
  try {
    if (value !== undefined) localStorage.setItem(key, value);
    return localStorage.getItem(key);
  } catch {
    return null; // a browser that keeps nothing for files
  }
};

const setTheme = (theme) => {
  document.documentElement.dataset.theme = theme;
  put(byId("theme"), el("span", { "aria-hidden": "true" }, ICONS[theme]), el("span", { class: "word" }, THEMES[theme]));
  remember("feddr-theme", theme);
  repaint();
};

const repaint = () => {
  readPalette();
  for (const chart of charts) chart.plot.redraw(false);
  for (const one of drawn) one.draw();
};

const drawNav = () => {
  const titles = {
    results: "Results",
    curves: "Curves",
    clients: "Clients",
    fares: "Each client",
    certificates: "Certificate",
    placement: "Placement",
    settings: "Settings",
    again: "Run it again",
  };
  put(
    byId("nav"),
    Object.entries(titles)
      .filter(([id]) => !byId(id).hidden)
      .map(([id, title]) => el("a", { href: `#${id}` }, title)),
  );
};

let before = "";

const drawAll = (data) => {
  const series = seriesOf(data);
  document.title = `${data.title} · feddr`;
  drawHead(data, series);
  drawResults(series);
  const measured = series.filter((one) => known(one.last.round));
  // Charts are made again only where there are other lines or other panels; else they get new points.
  const shape = JSON.stringify([
    measured.map((one) => one.id),
    panelsOf(measured).map((one) => one.y),
    axesOf(measured).map((axis) => axis.key),
  ]);
  byId("curves").hidden = !measured.length;
  if (shape !== before) {
    drawCharts(measured);
    drawControls(measured);
    before = shape;
  } else for (const chart of charts) chart.refresh(measured);
  drawClients(data, series);
  drawFares(series);
  drawCertificates(series);
  drawPlacement(series);
  drawSettings(data, series);
  drawAgain(data);
  drawNav();
  const thinned = series.filter((one) => (one.columns.round?.length ?? 0) < one.method.rows);
  put(
    byId("footer"),
    el(
      "p",
      {},
      `Written ${new Date(data.written).toLocaleString("en-GB", { dateStyle: "long", timeStyle: "short" })} by feddr ${data.version}. Charts by uPlot 1.6.32 (MIT licence).`,
    ),
    thinned.length > 0 &&
      el(
        "p",
        {},
        `Of long histories, evenly spaced rows are drawn: ${[...new Set(thinned.map((one) => `${group(one.columns.round.length)} of ${group(one.method.rows)}`))].join(", ")}.`,
      ),
  );
};

const follow = (data) => {
  const light = byId("live");
  let have = data.state,
    since = Date.now();
  const going = (runs) => runs.some((run) => run.unfinished);
  let unfinished = going(data.runs);
  const tell = (kind, text) => {
    light.className = `live ${kind}`;
    if (light.textContent !== text) put(light, text);
  };
  const ask = async () => {
    try {
      const answer = await fetch(`data.json?state=${encodeURIComponent(have)}`, { cache: "no-store" });
      if (answer.status === 200) {
        const newer = await answer.json();
        have = newer.state;
        since = Date.now();
        unfinished = going(newer.runs);
        drawAll(newer);
      }
      if (answer.status >= 400) tell("lost", "cannot be read now");
      else
        tell(
          unfinished ? "on" : "",
          unfinished
            ? Date.now() - since > 120_000
              ? `nothing new for ${seconds(Math.round((Date.now() - since) / 1000))}`
              : "following"
            : "ended",
        );
    } catch {
      tell("lost", "server gone");
    }
  };
  light.hidden = false;
  tell(unfinished ? "on" : "", unfinished ? "following" : "ended");
  setInterval(() => document.hidden || ask(), POLL);
};

{
  const data = JSON.parse(byId("data").textContent);
  const themes = Object.keys(THEMES);
  byId("theme").addEventListener("click", () => {
    setTheme(themes[(themes.indexOf(document.documentElement.dataset.theme) + 1) % themes.length]);
    say(THEMES[document.documentElement.dataset.theme]);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
  const theme = remember("feddr-theme");
  setTheme(themes.includes(theme) ? theme : "auto");
  drawAll(data);
  if (data.live) follow(data);
}
