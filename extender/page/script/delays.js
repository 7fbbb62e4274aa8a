import { get } from "./api.js";
import { groupMap } from "./delays_groups.js";
import { MOST_CELLS, nodeMap } from "./delays_nodes.js";
import { anchor, element, empty, link, panel } from "./dom.js";
import { count, moment, ms, plural } from "./format.js";
import { nodeInput } from "./node_input.js";

/** The heatmap: cells to some 300 nodes, beyond that groups × groups with a zoom. Beside it what stands out, in words. */
export function delays(root, _parameters, signal) {
  const map = panel("Round trips", { class: "map-panel" });
  const side = element("div", { class: "side" });
  root.append(element("div", { class: "with-side" }, map, side));
  return async () => {
    const groups = await get("/delays/groups", {}, signal);
    const nodes = groups.groups.reduce((sum, group) => sum + group.nodes, 0);
    side.replaceChildren(standsOut(groups), questions());
    if (!nodes) {
      map.replaceChildren(
        map.firstChild,
        empty(
          "No node has reported yet.",
          element(
            "p",
            { class: "quiet" },
            "Agents report within seconds of their start. `kubectl get pods -l app=leadsman-agent -o wide` shows whether they run.",
          ),
        ),
      );
      return;
    }
    const few = nodes <= MOST_CELLS;
    const next = few ? await nodeMap({ nodes }, signal) : groupMap(groups, signal);
    map.querySelector("h2").textContent = few
      ? `Round trips, ${plural(nodes, "node")}`
      : `Round trips, ${count(nodes)} nodes in ${plural(groups.groups.length, "group")}`;
    map.replaceChildren(map.firstChild, next.body);
    next.draw();
  };
}

/** One block of groups, node by node: #/delays/tile/<row group>/<column group>. */
export function delaysTile(root, { row, column }, signal) {
  const back = element(
    "div",
    { class: "crumbs" },
    anchor(["delays"], "All groups"),
    element("span", {}, "›"),
    element("b", {}, ""),
  );
  const map = panel("Round trips", { class: "map-panel" });
  root.append(back, map);
  return async () => {
    const { groups } = await get("/delays/groups", {}, signal);
    const [i, j] = [Number(row), Number(column)];
    if (!groups[i] || !groups[j]) {
      map.replaceChildren(
        map.firstChild,
        empty("There is no such group any more: groups are made again as delays change."),
      );
      return;
    }
    const offset = (index) => groups.slice(0, index).reduce((sum, group) => sum + group.nodes, 0);
    const area = { rowOffset: offset(i), columnOffset: offset(j), rows: groups[i].nodes, columns: groups[j].nodes };
    const next = await nodeMap(area, signal);
    const title = i === j ? `Within ${groups[i].label}` : `${groups[i].label} to ${groups[j].label}`;
    back.lastChild.textContent = title;
    map.querySelector("h2").textContent = `${title}: ${count(groups[i].nodes)} × ${plural(groups[j].nodes, "node")}`;
    map.replaceChildren(map.firstChild, next.body);
    next.draw();
  };
}

function standsOut({ slow_nodes: slow, outliers }) {
  const slowNodes = slow.map((node) =>
    element(
      "li",
      { class: "finding" },
      element("a", { href: link(["nodes", node.node]), class: "finding-text" }, slowText(node)),
      element(
        "span",
        { class: "quiet" },
        node.since ? "compared with the beginning of the last hour" : "for longer than the history",
      ),
    ),
  );
  const pairs = outliers
    .slice(0, 8)
    .map((pair) =>
      element(
        "li",
        { class: "outlier" },
        element("a", { href: link(["delays", pair.source, pair.target]) }, `${pair.source} → ${pair.target}`),
        element("span", { class: "number" }, ms(pair.rtt_ms)),
        element("span", { class: "quiet" }, `expected ${ms(pair.expected_ms)}`),
      ),
    );
  const more =
    outliers.length > pairs.length
      ? element("p", { class: "quiet" }, `The farthest ${pairs.length} of ${count(outliers.length)}.`)
      : null;
  const none =
    slow.length || outliers.length ? null : empty("Nothing: every node and every pair is where its group expects it.");
  return panel(
    "What stands out",
    {},
    none,
    slowNodes.length ? element("ul", { class: "findings" }, slowNodes) : null,
    pairs.length ? element("h3", {}, "Pairs far above what is expected") : null,
    pairs.length ? element("ul", { class: "outliers" }, pairs) : null,
    more,
  );
}

/** As the server says it, but with the reader's own time of day, as everywhere on the page. */
function slowText({ node, excess_ms: excess, since, text }) {
  return since ? `${node} is ${ms(excess)} farther from everybody since ${moment(since)}` : text;
}

function questions() {
  const ends = ["", ""];
  const open = (end) => (name) => {
    ends[end] = name;
    if (ends[0] && ends[1]) location.hash = link(["delays", ...ends]);
  };
  return panel(
    "Ask",
    {},
    element(
      "div",
      { class: "ask" },
      element("span", {}, "One pair"),
      nodeInput("from node", "", open(0)),
      nodeInput("to node", "", open(1)),
    ),
    element("p", { class: "ask-links" }, anchor(["delays", "change"], "What changed between two moments?")),
    element("p", { class: "ask-links" }, anchor(["within"], "Who is within a bound of a node?")),
  );
}
