import { get } from "./api.js";
import { element, empty, keepInAddress, link, panel, percent, plural } from "./dom.js";

/** Pod types × nodes: how well pods of a type ran, and how sure that is: #/rewards?search=…. */
export function rewards(root, _parameters, signal, query) {
  const asked = { search: query.search ?? "", cursors: [null] };
  const body = element("div");
  const pager = element("div", { class: "controls" });
  const load = async () => {
    const answer = await get("/rewards", { search: asked.search, cursor: asked.cursors.at(-1), limit: 50 }, signal);
    body.replaceChildren(matrix(answer, asked.search));
    pager.replaceChildren(...pageButtons(answer.nodes, asked, load));
  };
  const search = element("input", {
    type: "search",
    value: asked.search,
    placeholder: "name of a node or pod type",
    "aria-label": "Search rewards",
    class: "search",
    on: {
      input: () => {
        Object.assign(asked, { search: search.value, cursors: [null] });
        keepInAddress({ search: asked.search });
        load().catch(
          (error) =>
            error.name === "AbortError" || body.replaceChildren(element("p", { class: "problem" }, error.message)),
        );
      },
    },
  });
  root.append(
    panel(
      "Rewards by pod type and node",
      {},
      element(
        "p",
        { class: "quiet" },
        "How many runs of each pod type failed on each node, the worst nodes first. Its value, 1 at best, ranks the node for pods of the type, and falls fast where the node is to blame; the bar says how sure that is. Old runs fade, and “no run” is not a value of 0.",
      ),
      element("div", { class: "controls" }, search),
      body,
      pager,
    ),
  );
  return load;
}

function matrix({ pod_types: types, nodes, cells }, searched) {
  if (!types.length)
    return empty(
      searched
        ? "No node or pod type matches: try a shorter part of its name."
        : "No reward yet. An agent writes one when pods with a label podtype, app or name have run on its node for some minutes.",
    );
  const head = element(
    "tr",
    {},
    element("th", { scope: "col" }, "Node"),
    types.map((type) => element("th", { scope: "col", class: "number" }, type)),
  );
  const rows = nodes.items.map((node, j) =>
    element(
      "tr",
      {},
      element("th", { scope: "row" }, element("a", { href: link(["nodes", node]) }, node)),
      types.map((_, i) => rewardCell(cells[i][j])),
    ),
  );
  return element(
    "div",
    { class: "table-scroll", tabindex: "0", role: "group", "aria-label": "Rewards" },
    element("table", { class: "rewards" }, element("thead", {}, head), element("tbody", {}, rows)),
  );
}

function rewardCell(cell) {
  if (!cell) return element("td", { class: "no-trial" }, element("span", { class: "unknown" }, "no run"));
  const bad = `color-mix(in srgb, var(--lost) ${Math.round(45 * (1 - cell.value))}%, var(--void))`;
  const confidence = Math.max(0, 1 - (cell.upper_ratio - cell.lower_ratio));
  const sure = element("i", { style: { width: `${100 * confidence}%` } });
  return element(
    "td",
    { style: { background: bad } },
    element("span", {}, trialsText(cell)),
    element("span", { class: "trials" }, `value ${cell.value.toFixed(2)}, ${percent(confidence)} sure`),
    element("span", { class: "confidence", "aria-hidden": "true" }, sure),
  );
}

/** Trials fade with time, so there are fractions of them. */
function trialsText({ healthy, failed }) {
  const trials = healthy + failed;
  const short = (value) => (value < 1 ? Number(value.toPrecision(1)) : Math.round(value));
  return failed ? `${short(failed)} of ${short(trials)} failed` : plural(short(trials), "run");
}

function pageButtons({ next }, asked, load) {
  const step = (text, change) => element("button", { type: "button", on: { click: () => (change(), load()) } }, text);
  return [
    asked.cursors.length > 1 ? step("Previous nodes", () => asked.cursors.pop()) : null,
    next ? step("Next nodes", () => asked.cursors.push(next)) : null,
  ].filter(Boolean);
}
