import { get, path } from "./api.js";
import { anchor, element, empty, link, panel } from "./dom.js";
import { count, moment } from "./format.js";
import { pagedList, table } from "./table.js";

const SERIES = 8;
const SHOWN_REASONS = 6;

/** Why a pod is where it is: #/pods/<namespace>/<name>. */
export function podDecision(root, { namespace, name }, signal) {
  return decisionView(root, `${namespace}/${name}`, (query) => get(path("pods", namespace, name), query, signal));
}

/** One decision by its id: #/decisions/<id>. */
export function decisionById(root, { id }, signal) {
  return decisionView(root, `decision ${id}`, (query) => get(path("decisions", id), query, signal));
}

function decisionView(root, title, ask) {
  const crumbs = element(
    "div",
    { class: "crumbs" },
    anchor(["pods"], "Pods"),
    element("span", {}, "›"),
    element("b", {}, title),
  );
  const body = element("div", { class: "stack" });
  root.append(crumbs, body);
  let shown = null;
  return async () => {
    const decision = await ask({});
    if (decision.id === shown) return;
    shown = decision.id;
    const nodes = nodesList(decision, ask);
    await nodes.refresh();
    body.replaceChildren(...decisionParts(decision), panel("Nodes", {}, partsLegend(decision), nodes.body));
  };
}

/** What a decision says before its nodes: in a sentence, the funnel, and what would fix it. */
export function decisionParts(decision) {
  const decided = `Decided at ${moment(decision.at, true)}${decision.replica ? ` by ${decision.replica}` : ""}`;
  const funnelPanel = panel("From asked to scored", {}, funnel(decision));
  return [
    panel(
      decided,
      {},
      element("p", { class: "headline" }, decision.headline),
      decision.runner_up ? element("p", {}, "Runner-up: ", decision.runner_up) : null,
      decision.neutral ? element("p", { class: "problem warning" }, decision.neutral) : null,
    ),
    decision.passed ? funnelPanel : element("div", { class: "two" }, funnelPanel, fixes(decision)),
  ];
}

/**
 * The nodes of a decision with the parts of their scores, searched and paged by the server.
 *
 * `ask(query)` → the decision. searchOn: the event of the input that asks: "change" where requests are few.
 */
export function nodesList(decision, ask, searchOn = "input") {
  let first = decision.nodes;
  const list = pagedList(
    async (cursor) => {
      const page = first ?? (await ask({ search: search.value, cursor })).nodes;
      first = null;
      return page;
    },
    (items) => nodesTable(items, decision, search.value),
  );
  const search = element("input", {
    type: "search",
    placeholder: "name of a node, or a reason",
    "aria-label": "Search the nodes of this decision",
    class: "search",
    on: { [searchOn]: list.restart },
  });
  return { body: element("div", {}, element("div", { class: "controls" }, search), list.body), refresh: list.refresh };
}

function funnel({ asked, passed, refused_by_reason: reasons, best, kind }) {
  const sorted = [...reasons].sort((a, b) => b.count - a.count);
  const row = (name, value, label, start = 0) =>
    element(
      "li",
      { class: `funnel-row ${name}` },
      element("span", { class: "funnel-label" }, label),
      element(
        "span",
        { class: "funnel-track" },
        value > 0 &&
          element("i", {
            style: { left: `${(100 * start) / (asked || 1)}%`, width: `${(100 * value) / (asked || 1)}%` },
          }),
      ),
      element("span", { class: "number" }, name === "refused" ? `−${count(value)}` : count(value)),
    );
  let left = asked;
  const refusals = sorted
    .slice(0, SHOWN_REASONS)
    .map((reason) => row("refused", reason.count, reason.reason, (left -= reason.count)));
  const others = sorted.slice(SHOWN_REASONS).reduce((sum, reason) => sum + reason.count, 0);
  const scored = kind === "prioritize" || best.length ? row("scored", passed, "scored") : null;
  return element(
    "ol",
    { class: "funnel" },
    row("asked", asked, "asked"),
    refusals,
    others ? row("refused", others, "other reasons", (left -= others)) : null,
    row("passed", passed, "passed"),
    scored,
  );
}

function fixes({ fixes: lines }) {
  return panel(
    "What would let a node pass",
    {},
    lines.length
      ? element(
          "ul",
          { class: "fixes" },
          lines.map((line) => element("li", {}, line)),
        )
      : empty("Nothing single would let a node pass."),
  );
}

function partNames({ nodes }) {
  return [...new Set(nodes.items.flatMap((node) => node.parts.map((part) => part.name)))];
}

export function partsLegend(decision) {
  const names = partNames(decision);
  if (!names.length) return null;
  return element(
    "div",
    { class: "legend" },
    names.map((name, i) =>
      element("span", { class: "legend-item" }, element("i", { class: `glyph series-${i % SERIES}` }), name),
    ),
    element("span", {}, "Points of 10, by the weights of the ", anchor(["policies"], "policy"), "."),
  );
}

function nodesTable(items, decision, search) {
  const names = partNames(decision);
  const largest = Math.max(
    1,
    ...items.map((item) => item.parts.reduce((sum, part) => sum + part.points, 0)),
  );
  const columns = [
    { title: "Node", cell: (item) => element("a", { href: link(["nodes", item.node]), class: "strong" }, item.node) },
    {
      title: "Score",
      number: true,
      cell: (item) =>
        item.passed
          ? item.score === null
            ? element("span", { class: "quiet" }, "not scored")
            : String(item.score)
          : element("span", { class: "bad" }, "refused"),
    },
    { title: "Parts of the score", class: "bar-column", cell: (item) => stackedBar(item, names, largest) },
    { title: "Reason", cell: (item) => reasons(item) },
  ];
  return table("Nodes of this decision", columns, items, {
    whenEmpty: search
      ? `No node of this decision has “${search}” in its name or reason.`
      : "kube-scheduler named no node.",
    stacks: true,
    rowClass: (item) => (item.passed ? null : "row-refused"),
  });
}

function stackedBar({ parts, passed }, names, largest) {
  if (!passed || !parts.length) return "";
  const words = parts.map((part) => `${part.name} ${part.points.toFixed(1)}`).join(", ");
  const pieces = parts.map((part) =>
    element("i", {
      class: `series-${names.indexOf(part.name) % SERIES}`,
      style: { width: `${(100 * part.points) / largest}%` },
    }),
  );
  return [
    element("span", { class: "stacked", "aria-hidden": "true" }, pieces),
    element("span", { class: "quiet part-points" }, words),
  ];
}

function reasons({ reason, parts }) {
  const unknown = parts.filter((part) => part.reason);
  return [reason, unknown.map((part) => element("div", { class: "quiet" }, `${part.name}: ${part.reason}`))];
}
