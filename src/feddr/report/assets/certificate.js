// What a run has shown: which theorem applies, whether its hypotheses hold, how far inside its bound it was.

const drawCertificates = (series) => {
  const certified = series.filter((one) => one.method.certificate);
  byId("certificates").hidden = !certified.length;
  put(byId("certificates-title"), certified.length > 1 ? "Certificates" : "Certificate");
  put(
    byId("certificates-body"),
    certified.map((one) => certificate(one, one.method.certificate)),
  );
};

const certificate = (one, found) => {
  const verdict = found.certified
    ? found.estimated
      ? "certified, if the estimate of L is right"
      : "certified"
    : "not certified";
  const hypothesis = (each) =>
    el(
      "tr",
      {},
      el(
        "td",
        { class: each.holds ? "holds" : "fails" },
        el("span", { "aria-hidden": "true" }, each.holds ? "✓" : "✗"),
        el("span", { class: "hidden" }, each.holds ? "holds" : "fails"),
      ),
      el("th", { scope: "row" }, each.name),
      el("td", {}, each.value),
      el("td", {}, each.requirement),
    );
  const facts = Object.entries(found.facts ?? {});
  return el(
    "article",
    { class: "card certificate" },
    el(
      "header",
      {},
      el("div", {}, el("h3", {}, named(one)), el("p", {}, found.theorem)),
      el("span", { class: `badge ${found.certified ? "good" : "bad"}` }, verdict),
    ),
    known(found.bound) && known(found.measured) && gauge(found),
    (found.refusals ?? []).map((reason) => el("p", { class: "note bad" }, reason)),
    found.hypotheses?.length > 0 &&
      el(
        "div",
        { class: "scroll", tabindex: 0, role: "region", "aria-label": "Hypotheses of the theorem" },
        el(
          "table",
          { class: "hypotheses" },
          el(
            "thead",
            {},
            el(
              "tr",
              {},
              el("th", {}, el("span", { class: "hidden" }, "Holds")),
              ["Hypothesis", "Found", "Required"].map((title) => el("th", { scope: "col" }, title)),
            ),
          ),
          el("tbody", {}, found.hypotheses.map(hypothesis)),
        ),
      ),
    facts.length > 0 &&
      el(
        "dl",
        { class: "facts" },
        facts.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, number(value)))),
      ),
  );
};

// How far inside its bound a run was, in decades: the bar ends at the bound.
const gauge = (found) => {
  const inside = found.measured / found.bound,
    room = Math.max(3, Math.ceil(-Math.log10(inside)) + 1);
  const part = Math.min(1, Math.max(0.01, 1 + Math.log10(inside) / room));
  return el(
    "div",
    { class: "gauge" },
    el(
      "p",
      {},
      "The average of ‖G‖² was ",
      el("strong", {}, number(found.measured)),
      ", the theorem allows ",
      el("strong", {}, number(found.bound)),
      ` (ratio ${number(inside)}).`,
    ),
    svg(
      "svg",
      { viewBox: "0 0 100 4", preserveAspectRatio: "none", "aria-hidden": "true" },
      svg("rect", { class: "all", width: 100, height: 4, rx: 1 }),
      svg("rect", { class: inside <= 1 ? "part" : "part over", width: 100 * part, height: 4, rx: 1 }),
    ),
  );
};
