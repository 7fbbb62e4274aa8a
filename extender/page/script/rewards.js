import { get } from "./api.js";
import { element, empty, link, panel } from "./dom.js";
import { percent, plural } from "./format.js";
import { keepInAddress } from "./router.js";

/** Pod types × nodes: how well pods of a type ran, and how sure that is: #/rewards?search=…. */
export function rewards(root, _parameters, signal, query) {
  const asked = { search: query.search ?? "", cursors: [null] };
  const body = element("div");
  const pager = element("div", { class: "controls" });
  const load = async () => {
    const answer = await get("/rewards", { search: asked.search, cursor: asked.cursors.at(-1), limit: 50 }, signal);
    body.replaceChildren(matrix(answer));
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
        "1 is best: nothing speaks against the node for pods of this type. The worst nodes first; the bar says how sure that is. Trials fade with time, and “no trial” is not a reward of 0.",
      ),
      element("div", { class: "controls" }, search),
      body,
      pager,
    ),
  );
  return load;
}

function matrix({ pod_types: types, nodes, cells }) {
  if (!types.length) return empty("No reward yet: agents write one once pods of a type have run on their node.");
  if (!nodes.items.length) return empty("No node matches.");
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
  if (!cell) return element("td", { class: "no-trial" }, element("span", { class: "unknown" }, "no trial"));
  const bad = `color-mix(in srgb, var(--lost) ${Math.round(45 * (1 - cell.value))}%, var(--void))`;
  const confidence = Math.max(0, 1 - (cell.upper_ratio - cell.lower_ratio));
  const sure = element("i", { style: { width: `${100 * confidence}%` } });
  return element(
    "td",
    { style: { background: bad } },
    element("span", {}, cell.value.toFixed(2)),
    element("span", { class: "trials" }, `${trialsText(cell)}, ${percent(confidence)} sure`),
    element("span", { class: "confidence", "aria-hidden": "true" }, sure),
  );
}

/** Trials fade with time, so there are fractions of them. */
function trialsText({ healthy, failed }) {
  const trials = healthy + failed;
  const short = (value) => Number(value.toPrecision(2));
  return failed ? `${short(failed)} of ${short(trials)} failed` : plural(short(trials), "trial");
}

function pageButtons({ next }, asked, load) {
  const step = (text, change) => element("button", { type: "button", on: { click: () => (change(), load()) } }, text);
  return [
    asked.cursors.length > 1 ? step("Previous nodes", () => asked.cursors.pop()) : null,
    next ? step("Next nodes", () => asked.cursors.push(next)) : null,
  ].filter(Boolean);
}
