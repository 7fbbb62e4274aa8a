import { get, path } from "./api.js";
import { historyLine, pagedList, table } from "./controls.js";
import { anchor, duration, element, inLocalTime, keepInAddress, link, moment, ms, orUnknown, panel, percent, shortNumber, signedMs } from "./dom.js";

const STATUSES = ["", "fresh", "provisional", "stale", "unknown"];
const SORTS = [
  ["problem", "problems first"],
  ["name", "by name"],
  ["loss", "by lost links"],
  ["shift", "by what moved most"],
  ["rtt", "by round trip, farthest first"],
  ["age", "by last report, oldest first"],
];

/** All nodes, searched, filtered and sorted by the server: #/nodes?status=stale&sort=age. */
export function nodes(root, _parameters, signal, query) {
  const asked = {
    search: query.search ?? "",
    status: query.status ?? "",
    group: query.group ?? "",
    sort: query.sort ?? "problem",
  };
  const list = pagedList(
    (cursor) => get("/nodes", { ...asked, cursor }, signal),
    (items) => nodeTable(items, asked),
  );
  const ask = (changes) => {
    Object.assign(asked, changes);
    keepInAddress({ ...asked, sort: asked.sort === "problem" ? "" : asked.sort });
    list.restart();
  };
  const search = element("input", {
    type: "search",
    value: asked.search,
    placeholder: "name, zone or rack of a node",
    "aria-label": "Search nodes",
    class: "search",
    on: { input: () => ask({ search: search.value }) },
  });
  const status = element(
    "select",
    { "aria-label": "Status", on: { change: () => ask({ status: status.value }) } },
    STATUSES.map((value) => element("option", { value, selected: value === asked.status }, value || "any status")),
  );
  const sort = element(
    "select",
    { "aria-label": "Order", on: { change: () => ask({ sort: sort.value }) } },
    SORTS.map(([value, text]) => element("option", { value, selected: value === asked.sort }, text)),
  );
  root.append(panel("Nodes", {}, element("div", { class: "controls" }, search, status, sort), list.body));
  return list.refresh;
}

/** A status as a word with its shape, so that color is not needed to read it. */
export function statusMark(status) {
  return element("span", { class: `status ${status}` }, status);
}

function nodeTable(items, asked) {
  const columns = [
    { title: "Node", cell: (node) => element("a", { href: link(["nodes", node.name]), class: "strong" }, node.name) },
    { title: "Status", cell: (node) => statusMark(node.status) },
    { title: "Problems", class: "wordy", cell: (node) => node.problems.map((problem) => element("div", { class: "bad" }, inLocalTime(problem))) },
    { title: "Median round trip", number: true, class: "wide-only", cell: (node) => orUnknown(node.median_rtt_ms, ms) },
    { title: "Moved in the hour", number: true, class: "wide-only", cell: shift },
    { title: "Peers", number: true, class: "wide-only", cell: peers },
    { title: "Last report", number: true, class: "wide-only", cell: (node) => orUnknown(node.age_seconds, duration) },
    { title: "Zone, rack", class: "wide-only unbroken", cell: (node) => [node.zone, node.rack].filter(Boolean).join(", ") },
  ];
  const filtered = asked.search || asked.status || asked.group;
  return table("Nodes", columns, items, {
    whenEmpty: filtered
      ? "No node matches: shorten the name, or choose any status."
      : "No node has reported yet: see that agents run (kubectl get pods -A -l app.kubernetes.io/component=agent).",
  });
}

function shift({ shift_ms: value }) {
  if (value === null || value === undefined) return orUnknown(null);
  return Math.abs(value) < 1
    ? element("span", { class: "quiet" }, "none")
    : element("span", { class: value > 0 ? "bad" : "good" }, signedMs(value));
}

function peers({ peers_measured: measured, peers_lost: lost }) {
  return lost ? [`${measured} `, element("span", { class: "bad" }, `(${lost} lost)`)] : String(measured);
}

/** One node: its delays, peers, hardware and an hour of history: #/nodes/<name>. */
export function node(root, { name }, signal) {
  const crumbs = element(
    "div",
    { class: "crumbs" },
    anchor(["nodes"], "Nodes"),
    element("span", {}, "›"),
    element("b", {}, name),
  );
  const body = element("div", { class: "stack" });
  root.append(crumbs, body);
  return async () => {
    const answer = await get(path("nodes", name), {}, signal);
    const near = element("a", { class: "button", href: link(["within", name, 10]) }, "Who is near?");
    body.replaceChildren(
      panel(
        name,
        { aside: near },
        answer.problems.map((problem) => element("p", { class: "problem warning" }, inLocalTime(problem))),
        nodeFacts(answer),
      ),
      ...historyPanels(answer),
      element("div", { class: "two" }, peerPanel(answer), hardwarePanel(answer)),
    );
  };
}

/** Minutes of the last hour; older moments, which are half-hours, have a picture of their own. */
function historyPanels({ history }) {
  const points = history.map((point) => ({ at: point.at, value: point.rtt_ms }));
  const hourAgo = Date.parse(points.at(-1)?.at) - 3600000;
  const minutes = points.filter((point) => Date.parse(point.at) >= hourAgo);
  const line = (title, shown) => panel(title, {}, historyLine(shown, "Median round trip"));
  return [
    line("Median round trip to its peers, the last hour", minutes),
    points.length > minutes.length ? line("The last 48 hours", points) : null,
  ].filter(Boolean);
}

function nodeFacts(answer) {
  const shift =
    answer.shift_ms === null
      ? null
      : Math.abs(answer.shift_ms) < 1
        ? "none"
        : `${signedMs(answer.shift_ms)}${answer.shift_since ? ` since ${moment(answer.shift_since)}` : ""}`;
  const lines = [
    ["Status", statusMark(answer.status)],
    ["Last report", answer.age_seconds === null ? orUnknown(null) : `${duration(answer.age_seconds)} ago`],
    ["Median round trip", orUnknown(answer.median_rtt_ms, ms)],
    ["Moved in the last hour", shift === null ? orUnknown(null) : shift],
    ["Jitter", orUnknown(answer.jitter_ms, ms)],
    ["Address", answer.address || orUnknown(null)],
    [
      "Zone, rack",
      [answer.zone, answer.rack].filter(Boolean).join(", ") || element("span", { class: "quiet" }, "no labels"),
    ],
    [
      "Group",
      answer.group ? element("a", { href: link(["nodes"], { group: answer.group }) }, answer.group) : orUnknown(null),
    ],
  ];
  return element(
    "dl",
    { class: "facts wide" },
    lines.map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value))),
  );
}

function peerPanel({ name, peers: list }) {
  const columns = [
    { title: "Peer", cell: (peer) => anchor(["delays", name, peer.name], peer.name) },
    {
      title: "Median",
      number: true,
      cell: (peer) =>
        peer.rtt_ms === null && peer.lost ? element("span", { class: "bad" }, "no answer") : orUnknown(peer.rtt_ms, ms),
    },
    { title: "p95", number: true, cell: (peer) => orUnknown(peer.p95_ms, ms) },
    { title: "Jitter", number: true, class: "wide-only", cell: (peer) => orUnknown(peer.jitter_ms, ms) },
    {
      title: "Lost probes",
      number: true,
      cell: (peer) => (peer.lost ? element("span", { class: "bad" }, String(peer.lost)) : "0"),
    },
  ];
  return panel(
    "Peers that it probes",
    {},
    table("Peers", columns, list, { whenEmpty: "It has reported no round trip." }),
  );
}

/** What an operator calls a metric, and how its value reads: a ratio is a share, bytes have a unit. */
const UNITS = [
  [/_ratio$/, (value) => percent(value)],
  [/_bytes$/, bytes],
  [/_bytes_per_second$/, (value) => `${bytes(value)}/s`],
  [/_celsius$/, (value) => `${shortNumber(value)} °C`],
  [/_seconds$/, (value) => duration(value)],
  [/_hertz$/, (value) => `${shortNumber(value / 1e9)} GHz`],
  [/_volts$/, (value) => `${shortNumber(value)} V`],
  [/_watts$/, (value) => `${shortNumber(value)} W`],
];

/** cpu_busy_ratio 0.196 → ["CPU busy", "20 %"]. */
function hardwareWords(metric, value) {
  const [unit, format] = UNITS.find(([suffix]) => suffix.test(metric)) ?? [/$^/, plainNumber];
  const words = metric.replace(unit, "").replaceAll("_", " ").replace(/\b(cpu|io|gpu|ecc|irq|pid|tcp|nvme)\b/g, (name) => name.toUpperCase());
  return [words.charAt(0).toUpperCase() + words.slice(1), format(value)];
}

function hardwarePanel({ hardware }) {
  const columns = [
    { title: "Metric", cell: ([name, value]) => element("span", { title: name }, hardwareWords(name, value)[0]) },
    { title: "Value", number: true, cell: ([name, value]) => hardwareWords(name, value)[1] },
  ];
  return panel(
    "Hardware",
    {},
    table("Hardware", columns, Object.entries(hardware), { whenEmpty: "Its agent has reported no metric of the hardware yet." }),
  );
}

function plainNumber(value) {
  return Math.abs(value) >= 1000
    ? value.toLocaleString("en-US", { maximumFractionDigits: 0 })
    : String(Number(value.toPrecision(3)));
}

/** 512 B, 1.4 GiB. */
function bytes(value) {
  const power = Math.min(5, Math.max(0, Math.floor(Math.log2(Math.max(1, value)) / 10)));
  return `${plainNumber(value / 1024 ** power)} ${["B", "KiB", "MiB", "GiB", "TiB", "PiB"][power]}`;
}
