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
    const detail = await ask({});
    if (detail.decision.id === shown) return;
    shown = detail.decision.id;
    const nodes = nodesList(detail, ask);
    await nodes.refresh();
    body.replaceChildren(...decisionParts(detail), panel("Nodes", {}, partsLegend(detail), nodes.body));
  };
}

/** What a decision says before its nodes: in a sentence, the funnel, and what would fix it. */
export function decisionParts({ decision, explanation, fixes: lines }) {
  const decided = `Decided at ${moment(decision.at, true)}${decision.replica ? ` by ${decision.replica}` : ""}`;
  const funnelPanel = panel("From asked to scored", {}, funnel(decision));
  return [
    panel(
      decided,
      {},
      element("p", { class: "headline" }, explanation.headline),
      explanation.runner_up ? element("p", {}, "Runner-up: ", explanation.runner_up) : null,
      decision.neutral ? element("p", { class: "problem warning" }, decision.neutral) : null,
    ),
    decision.passed ? funnelPanel : element("div", { class: "two" }, funnelPanel, fixes(lines)),
  ];
}

/**
 * The nodes of a decision with the parts of their scores, searched and paged by the server.
 *
 * `ask(query)` → the decision. searchOn: the event of the input that asks: "change" where requests are few.
 */
export function nodesList(detail, ask, searchOn = "input") {
  let first = nodesPage(detail);
  const list = pagedList(
    async (cursor) => {
      const page = first ?? nodesPage(await ask({ search: search.value, cursor }));
      first = null;
      return page;
    },
    (items) => nodesTable(items, detail, search.value),
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

const nodesPage = ({ explanation, next, total }) => ({ items: explanation.nodes, next, total });

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

function fixes(lines) {
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

/** The score plugins that counted. */
function partNames({ explanation }) {
  return explanation.parts.filter((part) => !part.neutral && part.weight).map((part) => part.plugin);
}

export function partsLegend(detail) {
  const names = partNames(detail);
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

function nodesTable(items, detail, search) {
  const names = partNames(detail);
  const largest = Math.max(
    1,
    ...items.map((item) => Object.values(item.points).reduce((sum, points) => sum + points, 0)),
  );
  const columns = [
    { title: "Node", cell: (item) => element("a", { href: link(["nodes", item.node]), class: "strong" }, item.node) },
    {
      title: "Score",
      number: true,
      cell: (item) =>
        passed(item)
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
    rowClass: (item) => (passed(item) ? null : "row-refused"),
  });
}

const passed = ({ verdict }) => verdict === "kept";

function stackedBar({ points }, names, largest) {
  const parts = names.filter((name) => name in points).map((name) => ({ name, points: points[name] }));
  if (!parts.length) return "";
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

function reasons({ reason, unknown }) {
  return [reason, Object.entries(unknown).map(([name, why]) => element("div", { class: "quiet" }, `${name}: ${why}`))];
}
