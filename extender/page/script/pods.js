import { get, path, post } from "./api.js";
import { pagedList, table } from "./controls.js";
import { anchor, count, element, empty, keepInAddress, link, moment, panel, plural } from "./dom.js";

/** The newest decisions, those on pods that wait first, searched by pod: #/pods?search=…. */
export function pods(root, _parameters, signal, query) {
  const asked = { search: query.search ?? "" };
  const list = pagedList(
    (cursor) => get("/decisions", { ...asked, sort: "waiting", cursor }, signal),
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
  const ask = (changes) => {
    Object.assign(asked, changes);
    keepInAddress(asked);
    list.restart();
  };
  const whatIf = element("a", { href: link(["what-if"]), class: "button" }, "What if …");
  root.append(
    panel(
      "Decisions: waiting pods, then the newest",
      { aside: whatIf },
      element("div", { class: "controls" }, search),
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
    { title: "Mostly filtered out for", class: "wide-only", cell: (item) => mainReason(item) },
  ];
  const whenEmpty = search
    ? `No pod that was decided on lately matches “${search}”: the newest 256 are kept. Try a shorter part of its name.`
    : "kube-scheduler has asked nothing yet. Run `leadsman configure-scheduler`, then create a pod: its decision appears here.";
  return table("Decisions", columns, items, {
    whenEmpty,
    stacks: true,
    rowClass: (item) => (item.asked && !item.passed ? "row-refused" : null),
  });
}

function podLink({ pod }) {
  return link(["pods", ...pod.split("/")]);
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
  const [first, ...rest] = Object.entries(reasons).sort(([, a], [, b]) => b - a);
  if (!first) return element("span", { class: "quiet" }, "none filtered out");
  return `${first[0]} (${count(first[1])})${rest.length ? `, ${plural(rest.length, "other reason")}` : ""}`;
}

const SERIES = 8;
const SHOWN_REASONS = 6;

/** Why a pod is where it is: #/pods/<namespace>/<name>. */
export function podDecision(root, { namespace, name }, signal) {
  return decisionView(root, `${namespace}/${name}`, (query) => get(path("pods", namespace, name), query, signal));
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
    const made = `${detail.decision.at} ${detail.decision.kind}`;
    if (made === shown) return;
    shown = made;
    const nodes = nodesList(detail, ask);
    await nodes.refresh();
    body.replaceChildren(...decisionParts(detail), panel("Nodes", {}, partsLegend(detail), nodes.body));
  };
}

/** What a decision says before its nodes: in a sentence, the funnel, and what would fix it. */
export function decisionParts({ decision, explanation, fixes: lines }) {
  const decided = `Decided at ${moment(decision.at, true)}${decision.replica ? ` by ${decision.replica}` : ""}`;
  const funnelPanel = panel("From candidates to scores", {}, funnel(decision));
  return [
    panel(
      decided,
      {},
      element("p", { class: "headline" }, explanation.headline),
      explanation.runner_up ? element("p", {}, "Runner-up: ", explanation.runner_up) : null,
      decision.neutral ? element("p", { class: "problem warning" }, decision.neutral) : null,
    ),
    decision.passed ? funnelPanel : element("div", { class: "two" }, fixes(lines), funnelPanel),
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
  const sorted = Object.entries(reasons).sort(([, a], [, b]) => b - a);
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
    .map(([reason, nodes]) => row("refused", nodes, reason, (left -= nodes)));
  const others = sorted.slice(SHOWN_REASONS).reduce((sum, [, nodes]) => sum + nodes, 0);
  const scored = kind === "prioritize" || best.length ? row("scored", passed, "scored") : null;
  return element(
    "ol",
    { class: "funnel" },
    row("asked", asked, "candidates"),
    refusals,
    others ? row("refused", others, "other reasons", (left -= others)) : null,
    row("passed", passed, "feasible"),
    scored,
  );
}

function fixes(lines) {
  return panel(
    "What would help",
    {},
    lines.length
      ? element(
          "ul",
          { class: "fixes" },
          lines.map((line) => element("li", {}, line)),
        )
      : empty("No single change of its bounds gives it a node: read the reasons of the nodes below."),
  );
}

/** The score plugins that counted. */
function partNames({ explanation }) {
  return explanation.parts.filter((part) => !part.neutral && part.weight).map((part) => part.plugin);
}

export function partsLegend({ explanation }) {
  const names = partNames({ explanation });
  if (!names.length) return null;
  return element(
    "div",
    { class: "legend" },
    names.map((name, i) =>
      element(
        "span",
        { class: "legend-item" },
        element("i", { class: `glyph series-${i % SERIES}` }),
        `${name} (weight ${explanation.parts.find((part) => part.plugin === name).weight})`,
      ),
    ),
    element("span", {}, "Points of 10. A part counts by its weight in the policy."),
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
      : "kube-scheduler offered no node: look at the pod's nodeSelector, taints and requests.",
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

const EXAMPLE = `apiVersion: v1
kind: Pod
metadata:
  name: what-if
  labels:
    delay_NODE: "25"   # at most 25 ms from this node
spec:
  containers:
  - name: main
    image: registry.k8s.io/pause:3.10
`;
const MOST_BYTES = 256 * 1024;

/** A pod that does not exist, decided as if kube-scheduler asked: #/what-if. Nothing is kept. */
export function whatIf(root, _parameters, signal) {
  const text = element("textarea", { id: "what-if", rows: "14", spellcheck: "false" });
  text.value = EXAMPLE;
  const note = element("p", { role: "status", class: "problem", hidden: true });
  const result = element("div", { class: "stack" });
  const button = element("button", { type: "button", class: "primary" }, "Decide");
  const decide = async () => {
    note.hidden = true;
    button.disabled = true;
    try {
      await show(text.value, result, signal);
    } catch (error) {
      result.replaceChildren();
      note.hidden = false;
      note.textContent = error.message;
    }
    button.disabled = false;
  };
  button.addEventListener("click", decide);
  text.addEventListener("keydown", (event) => event.key === "Enter" && (event.ctrlKey || event.metaKey) && decide());
  root.append(
    element(
      "div",
      { class: "crumbs" },
      anchor(["pods"], "Pods"),
      element("span", {}, "›"),
      element("b", {}, "What if"),
    ),
    panel(
      "Where would this pod go?",
      {},
      element(
        "label",
        { for: "what-if" },
        "A Pod, Deployment, StatefulSet, DaemonSet or Job as YAML. It is decided on the cluster as it is now; nothing is kept or scheduled.",
      ),
      text,
      element("div", { class: "controls" }, button, element("span", { class: "quiet" }, "Ctrl+Enter")),
      note,
    ),
    result,
  );
  return async () => {
    const { items } = await get("/nodes", { limit: 1 }, signal);
    if (items.length) text.value = text.value.replace("delay_NODE:", `delay_${items[0].name}:`);
  };
}

async function show(yaml, result, signal) {
  if (new TextEncoder().encode(yaml).length > MOST_BYTES)
    throw new Error("The text is over 256 KiB. Paste one object.");
  const ask = (query) => post("/what-if", { yaml }, query, signal);
  const detail = await ask({});
  const nodes = nodesList(detail, ask, "change");
  await nodes.refresh();
  result.replaceChildren(...decisionParts(detail), panel("Nodes", {}, partsLegend(detail), nodes.body));
}
