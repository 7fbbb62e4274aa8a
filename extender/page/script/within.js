import { get } from "./api.js";
import { nodeInput, table } from "./controls.js";
import { anchor, count, element, empty, link, ms, orUnknown, panel, plural } from "./dom.js";
import { extent, withinMap } from "./within_map.js";

const LEAST_MS = 0.1;
const MOST_MS = 500;
const LISTED = 100;

/** Who is within a bound of a node: #/within/<node>/<ms>. */
export function within(root, { node, bound }, signal) {
  const state = { node, bound: Number(bound) > 0 ? Number(bound) : 10 };
  const slider = element("input", {
    type: "range",
    min: "0",
    max: "1000",
    step: "1",
    "aria-label": "Bound in milliseconds, logarithmic",
    on: { input: () => move(ofSlider(slider.value)) },
  });
  const number = element("input", {
    type: "number",
    min: String(LEAST_MS),
    max: "60000",
    step: "any",
    "aria-label": "Bound in milliseconds",
    on: { change: () => Number(number.value) > 0 && move(Number(number.value)) },
  });
  const summary = element("div", { class: "within-summary", "aria-live": "polite" });
  const lists = element("div", { class: "stack" });
  const map = withinMap(
    { drag: (value) => move(rounded(value)), pick: (name) => (location.hash = link(["within", name, state.bound])) },
    signal,
  );
  const input = nodeInput("node", node, (name) => (location.hash = link(["within", name, state.bound])));
  root.append(
    element(
      "div",
      { class: "with-side" },
      panel(
        "Who is near?",
        { class: "map-panel" },
        element(
          "div",
          { class: "controls" },
          element("span", {}, "Within"),
          number,
          element("span", {}, "ms of"),
          input,
          slider,
        ),
        map.box,
        mapLegend(),
      ),
      element("div", { class: "side" }, panel("A bound here would", {}, summary), lists),
    ),
  );
  const showBound = () => {
    number.value = String(state.bound);
    // The bound is rounded: set back to it, the slider would stay where it is at each press of an arrow key.
    if (ofSlider(slider.value) !== state.bound) slider.value = String(Math.round(1000 * toSlider(state.bound)));
    map.update({ bound: state.bound, node: state.node });
  };
  const load = async () => {
    const answer = await get("/delays/within", { node: state.node, bound_ms: state.bound }, signal);
    map.update({ items: answer.items, node: answer.node, bound: state.bound });
    summary.replaceChildren(...summarise(answer));
    lists.replaceChildren(...nearLists(answer), ...outsideList(answer));
  };
  const latest = lastOnly(load);
  const move = (value) => {
    state.bound = value;
    window.history.replaceState(null, "", link(["within", state.node, value]));
    showBound();
    latest().catch(
      (error) =>
        error.name === "AbortError" || summary.replaceChildren(element("p", { class: "problem" }, error.message)),
    );
  };
  showBound();
  return load;
}

/** #/within alone: about the first node, so that there is something to move. */
export function withinAny(root, _parameters, signal) {
  let load = null;
  return async () => {
    const { items } = load ? {} : await get("/nodes", { limit: 1, sort: "name" }, signal);
    if (items && !items.length)
      return root.replaceChildren(panel("Who is near?", {}, empty("No node has reported yet: see that agents run (kubectl get pods -A -l app.kubernetes.io/component=agent).")));
    if (items) {
      window.history.replaceState(null, "", link(["within", items[0].name, 10]));
      root.replaceChildren();
      load = within(root, { node: items[0].name, bound: 10 }, signal);
    }
    return load();
  };
}

/** One request at a time; while it runs, only the newest next one waits. */
function lastOnly(run) {
  let running = null;
  let again = false;
  return async () => {
    if (running) {
      again = true;
      return;
    }
    do {
      again = false;
      running = run();
      try {
        await running;
      } finally {
        running = null;
      }
    } while (again);
  };
}

function toSlider(value) {
  return Math.log(Math.min(MOST_MS, Math.max(LEAST_MS, value)) / LEAST_MS) / Math.log(MOST_MS / LEAST_MS);
}

function ofSlider(place) {
  return rounded(LEAST_MS * (MOST_MS / LEAST_MS) ** (Number(place) / 1000));
}

function rounded(value) {
  return Number(value.toPrecision(2));
}

function mapLegend() {
  const marks = [
    ["dot-measured", "passes, measured"],
    ["dot-estimate", "passes by an estimate's upper end"],
    ["dot-beyond", "refused, measured"],
    ["dot-beyond-estimate", "refused by an estimate's upper end"],
    ["dot-unknown", "unknown: refused"],
    ["dot-outside", "far beyond the map's edge"],
  ];
  return element(
    "div",
    { class: "legend" },
    marks.map(([name, text]) =>
      element("span", { class: "legend-item" }, element("i", { class: `glyph ${name}` }), text),
    ),
    element(
      "span",
      { class: "legend-item" },
      "Drag the ring, click a node. Places are projected: the values decide, not the ring.",
    ),
  );
}

function summarise({ node, bound_ms: bound, items }) {
  const others = items.filter((item) => item.name !== node);
  const number = (test) => others.filter(test).length;
  const measured = number((item) => item.passes && item.basis === "measured");
  const estimated = number((item) => item.passes && item.basis === "estimate");
  const unknown = number((item) => item.basis === "unknown");
  const refused = others.length - measured - estimated;
  const part = (value, name) => (value ? element("i", { class: name, style: { "flex-grow": String(value) } }) : null);
  return [
    element(
      "p",
      { class: "headline" },
      element("b", {}, count(measured + estimated)),
      ` of ${plural(others.length, "other node")} pass`,
    ),
    element(
      "div",
      {
        class: "share-bar",
        role: "img",
        "aria-label": `${measured} measured, ${estimated} by an estimate, ${refused} refused`,
      },
      part(measured, "measured-part"),
      part(estimated, "estimate-part"),
      part(refused, "refused-part"),
    ),
    element(
      "dl",
      { class: "facts" },
      fact("measured", count(measured)),
      fact("by estimate", count(estimated)),
      fact("refused", count(refused)),
      fact("of these unknown", count(unknown)),
    ),
    element(
      "p",
      { class: "quiet" },
      "As a label on a pod: ",
      element("code", {}, `delay_${node}: "${bound}"`),
    ),
  ];
}

function fact(name, value) {
  return element("div", {}, element("dt", {}, name), element("dd", {}, value));
}

function nearLists({ node, items }) {
  const byRtt = items.filter((item) => item.name !== node && item.rtt_ms !== null).sort((a, b) => a.rtt_ms - b.rtt_ms);
  const missed = byRtt.filter((item) => !item.passes).slice(0, 8);
  const passing = byRtt.filter((item) => item.passes);
  const columns = [
    { title: "Node", cell: (item) => anchor(["delays", node, item.name], item.name) },
    { title: "Round trip", number: true, cell: (item) => ms(item.rtt_ms) },
    { title: "By", cell: basis },
  ];
  const more =
    passing.length > LISTED
      ? element("p", { class: "quiet" }, `The nearest ${LISTED} of ${count(passing.length)}.`)
      : null;
  return [
    panel(
      "Nearest beyond the bound",
      {},
      table("Nearest refused nodes", columns, missed, { whenEmpty: "No node with a value is refused." }),
    ),
    panel(
      "Pass",
      {},
      table("Nodes that pass", columns, passing.slice(0, LISTED), { whenEmpty: "No other node passes." }),
      more,
    ),
  ];
}

/** Those that the map has at its edge. */
function outsideList({ node, items }) {
  const { outside } = extent(items, node);
  if (!outside.length) return [];
  const columns = [
    { title: "Node", cell: (item) => anchor(["delays", node, item.name], item.name) },
    { title: "Round trip", number: true, cell: (item) => orUnknown(item.rtt_ms, ms) },
  ];
  const more = outside.length > 8 ? element("p", { class: "quiet" }, `8 of ${count(outside.length)}.`) : null;
  return [panel("Beyond the map's edge", {}, table("Nodes beyond the map's edge", columns, outside.slice(0, 8)), more)];
}

function basis({ basis: name, high_ms: high }) {
  return name === "estimate" && high !== null ? `est. to ${ms(high)}` : name;
}
