import { get, path } from "./api.js";
import { anchor, element, link, panel } from "./dom.js";
import { duration, moment, ms, orUnknown, signedMs } from "./format.js";
import { statusMark } from "./nodes.js";
import { historyLine } from "./sparkline.js";
import { table } from "./table.js";

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
        answer.problems.map((problem) => element("p", { class: "problem warning" }, problem)),
        nodeFacts(answer),
      ),
      ...historyPanels(answer),
      element("div", { class: "two" }, peerPanel(answer), hardwarePanel(answer)),
    );
  };
}

/** Minutes of the last hour; older moments, which are half-hours, have a picture of their own. */
function historyPanels({ history }) {
  const points = history.map((point) => ({ at: point.at, value: point.median_rtt_ms }));
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
    ["Moved in the last hour", orUnknown(shift)],
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
    ["Pods with bounds", orUnknown(answer.bounded_pods)],
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

function hardwarePanel({ hardware: list }) {
  const columns = [
    { title: "Metric", cell: (metric) => metric.name },
    { title: "Value", number: true, cell: (metric) => orUnknown(metric.value, hardwareValue) },
  ];
  return panel(
    "Hardware",
    {},
    table("Hardware", columns, list, { whenEmpty: "It has reported no metric of its hardware." }),
  );
}

function hardwareValue(value) {
  return Math.abs(value) >= 1000
    ? value.toLocaleString("en-US", { maximumFractionDigits: 0 })
    : String(Number(value.toPrecision(3)));
}
