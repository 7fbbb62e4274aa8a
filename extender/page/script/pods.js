import { get } from "./api.js";
import { element, link, panel } from "./dom.js";
import { count, moment, plural } from "./format.js";
import { keepInAddress } from "./router.js";
import { pagedList, table } from "./table.js";

const KINDS = [
  ["", "filter and prioritize"],
  ["filter", "filter"],
  ["prioritize", "prioritize"],
];

/** The newest decisions, searched by pod: #/pods?search=…. */
export function pods(root, _parameters, signal, query) {
  const asked = { search: query.search ?? "", kind: query.kind ?? "" };
  const list = pagedList(
    (cursor) => get("/decisions", { ...asked, cursor }, signal),
    (items) => decisionTable(items, asked.search),
  );
  const search = element("input", {
    type: "search",
    value: asked.search,
    placeholder: "namespace or name of a pod",
    "aria-label": "Search pods",
    class: "search",
    on: { input: () => ask({ search: search.value }) },
  });
  const kinds = element(
    "select",
    { "aria-label": "Kind of call", on: { change: () => ask({ kind: kinds.value }) } },
    KINDS.map(([value, text]) => element("option", { value, selected: value === asked.kind }, text)),
  );
  const ask = (changes) => {
    Object.assign(asked, changes);
    keepInAddress(asked);
    list.restart();
  };
  const whatIf = element("a", { href: link(["what-if"]), class: "button" }, "What if …");
  root.append(
    panel(
      "Decisions, newest first",
      { aside: whatIf },
      element("div", { class: "controls" }, search, kinds),
      list.body,
    ),
  );
  return list.refresh;
}

function decisionTable(items, search) {
  const columns = [
    { title: "Pod", cell: (item) => element("a", { href: podLink(item), class: "strong" }, item.pod) },
    { title: "When", class: "unbroken", cell: (item) => moment(item.at, true) },
    { title: "Passed", class: "bar-column", cell: funnelBar },
    { title: "Best node (score of 10)", cell: (item) => best(item) },
    { title: "Mostly refused for", class: "wide-only", cell: (item) => mainReason(item) },
  ];
  const whenEmpty = search
    ? `No kept decision is on a pod that matches “${search}”. A replica keeps its newest 256.`
    : "kube-scheduler has asked nothing yet. Its configuration names this extender: `leadsman configure-scheduler` shows and edits it.";
  return table("Decisions", columns, items, {
    whenEmpty,
    stacks: true,
    rowClass: (item) => (item.asked && !item.passed ? "row-refused" : null),
  });
}

function podLink({ pod, id }) {
  const [namespace, name] = pod.split("/");
  return name ? link(["pods", namespace, name]) : link(["decisions", id]);
}

function funnelBar({ asked, passed }) {
  const share = asked ? passed / asked : 0;
  return element(
    "span",
    { class: "meter" },
    element("i", { style: { width: `${100 * share}%` } }),
    element("span", {}, `${count(passed)} of ${count(asked)}`),
  );
}

function best(item) {
  if (item.best.length) return `${item.best[0].node} (${item.best[0].score})`;
  if (!item.passed) return element("span", { class: "bad" }, "no node passes");
  return element("span", { class: "quiet" }, item.neutral || "not scored");
}

function mainReason({ refused_by_reason: reasons }) {
  if (!reasons.length) return element("span", { class: "quiet" }, "none refused");
  const [first] = [...reasons].sort((a, b) => b.count - a.count);
  const rest = reasons.length - 1;
  return `${first.reason} (${count(first.count)})${rest ? `, ${plural(rest, "other reason")}` : ""}`;
}
