// Where clients computed: which worker had which shards, on which machine, how long, and how often it was replaced.

let shownPlacement = "";

const drawPlacement = (series) => {
  const placed = series.filter((one) => one.method.placement?.workers.length);
  const what = JSON.stringify(placed.map((one) => one.method.placement));
  if (what === shownPlacement) return;
  shownPlacement = what;
  byId("placement").hidden = !placed.length;
  put(
    byId("placement-body"),
    placed.flatMap((one) => [
      placed.length > 1 && el("h3", { class: "group" }, named(one)),
      placementTable(one),
      workCard(one),
    ]),
  );
};

const placementTable = (one) => {
  const titles = ["Worker", "Machine", "Process", "Shards", "Clients", "Computed", "Replaced"];
  const row = (worker, j) => {
    const [first, stop] = worker.shards;
    const shards = stop - first === 1 ? `${first}` : `${first} to ${stop - 1}`;
    const replaced = worker.replaced ? plural(worker.replaced, "time") : "never";
    const { machine, process, clients } = worker;
    const cells = [machine, `${process}`, shards, whole(clients), seconds(worker.seconds), replaced];
    return el(
      "tr",
      {},
      el("th", { scope: "row" }, `${j + 1}`),
      cells.map((cell) => el("td", {}, cell)),
    );
  };
  return sideways(
    "card wide-table",
    `Workers of ${one.label}, a table that may scroll sideways`,
    tableOf("results", titles, one.method.placement.workers.map(row)),
  );
};

// A bar for each worker; those that are equally long share the work well.
const workCard = (one) => {
  const { workers, machines, threads, bytes, bytes_a_round } = one.method.placement;
  const spent = workers.map((worker) => worker.seconds),
    most = Math.max(...spent),
    mean = spent.reduce((sum, value) => sum + value, 0) / spent.length,
    top = most > 0 ? most : 1,
    places = Math.max(workers.length, 16); // a few workers are no wider than one of sixteen
  const high = (value) => (100 * value) / top;
  const bar = (worker, j) =>
    svg(
      "rect",
      { x: j + 0.06, width: 0.88, y: 100 - high(worker.seconds), height: Math.max(high(worker.seconds), 0.6) },
      svg("title", {}, `worker ${j + 1} on ${worker.machine}: ${seconds(worker.seconds)}`),
    );
  const words = `the longest ${seconds(most)}, the mean ${seconds(mean)} (line)`;
  const where = `${plural(workers.length, "worker")} of ${plural(threads, "thread")} on ${plural(machines, "machine")}`;
  const sent = `${megabytes(bytes / 1e6)} between driver and workers, ${megabytes(bytes_a_round / 1e6)} a round`;
  return el(
    "article",
    { class: "card chart" },
    el(
      "header",
      {},
      el("div", {}, el("h4", {}, "Time that each worker computed"), el("p", {}, `${where}: ${words}; ${sent}`)),
    ),
    svg(
      "svg",
      {
        class: `fares c${one.colour}`,
        viewBox: `0 0 ${places} 100`,
        preserveAspectRatio: "none",
        role: "img",
        "aria-label": `Time that each of ${where} of ${one.label} computed: ${words}`,
      },
      workers.map(bar),
      svg("line", { class: "median", x1: 0, x2: workers.length, y1: 100 - high(mean), y2: 100 - high(mean) }),
    ),
  );
};
