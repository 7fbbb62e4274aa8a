import { get } from "./api.js";
import { element, link, panel } from "./dom.js";
import { duration, ms, orUnknown, signedMs } from "./format.js";
import { keepInAddress } from "./router.js";
import { pagedList, table } from "./table.js";

const STATUSES = ["", "fresh", "provisional", "stale", "unknown"];
const SORTS = [
  ["name", "by name"],
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
    sort: query.sort ?? "name",
  };
  const list = pagedList(
    (cursor) => get("/nodes", { ...asked, cursor }, signal),
    (items) => nodeTable(items, asked),
  );
  const ask = (changes) => {
    Object.assign(asked, changes);
    keepInAddress({ ...asked, sort: asked.sort === "name" ? "" : asked.sort });
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
    { title: "Last report", number: true, cell: (node) => orUnknown(node.age_seconds, duration) },
    { title: "Median round trip", number: true, cell: (node) => orUnknown(node.median_rtt_ms, ms) },
    { title: "Moved in the hour", number: true, cell: shift },
    { title: "Jitter", number: true, class: "wide-only", cell: (node) => orUnknown(node.jitter_ms, ms) },
    { title: "Peers", number: true, class: "wide-only", cell: peers },
    { title: "Group", class: "wide-only unbroken", cell: (node) => node.group || "" },
    { title: "Zone, rack", class: "wide-only unbroken", cell: (node) => [node.zone, node.rack].filter(Boolean).join(", ") },
    { title: "Problems", cell: (node) => node.problems.map((problem) => element("div", { class: "bad" }, problem)) },
  ];
  const filtered = asked.search || asked.status || asked.group;
  return table("Nodes", columns, items, { whenEmpty: filtered ? "No node matches." : "No node has reported yet." });
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
