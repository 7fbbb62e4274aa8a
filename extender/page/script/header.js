import { get } from "./api.js";
import { count, duration, element, link, moment, signedMs } from "./dom.js";

/** Cards, and the names of the health checks whose failure makes each red: none is red while Health is green. */
const CARDS = [
  [nodesCard, ["agents report", "no agent stopped"]],
  [linksCard, ["every link answers"]],
  [waitingCard, ["pods with bounds find nodes"]],
  [changeCard, ["no node moved away"]],
];

/** The cluster at a glance, each card a link to what explains it. overview: the answer of /overview. */
export function strip(overview) {
  const failing = new Set(overview.problems.map((problem) => problem.name));
  return CARDS.map(([card, checks]) => card(overview, checks.some((check) => failing.has(check)) ? "warn" : ""));
}

/** Problems that no card shows. */
export function otherProblems({ problems }) {
  const shown = new Set(CARDS.flatMap(([, checks]) => checks));
  return problems.filter((problem) => !shown.has(problem.name));
}

/** The same cards without a value, until the first answer. */
export function emptyStrip() {
  return CARDS.map(() => element("div", { class: "card loading" }));
}

function card(title, value, note, href, tone) {
  return element(
    "a",
    { class: `card ${tone}`, href },
    element("span", { class: "card-title" }, title),
    element("span", { class: "card-value" }, value),
    element("span", { class: "card-note" }, note),
  );
}

function nodesCard({ nodes }, tone) {
  const all = nodes.fresh + nodes.provisional + nodes.stale + nodes.unknown;
  const rest = ["provisional", "stale", "unknown"]
    .filter((status) => nodes[status])
    .map((status) => `${count(nodes[status])} ${status}`);
  return card(
    "Nodes that report",
    [count(nodes.fresh), element("small", {}, ` of ${count(all)}`)],
    rest.join(", ") || "all of them",
    link(["nodes"], { sort: rest.length ? "age" : "" }),
    tone,
  );
}

function linksCard({ pairs, problems }, tone) {
  const check = problems.find((problem) => problem.name === "every link answers");
  return card(
    "Lost links",
    count(pairs.lost),
    check ? check.text : `${count(pairs.measured)} pairs are measured, every one answers`,
    link(["delays", "lost"]),
    tone,
  );
}

function waitingCard({ waiting }, tone) {
  if (!waiting.bounded_pods) return card("Pods waiting", "0", "no pod with a bound waits", link(["pods"]), tone);
  return card(
    "Pods waiting",
    count(waiting.bounded_pods),
    `${waiting.pod}, for ${duration(waiting.longest_seconds)}`,
    link(["pods", ...waiting.pod.split("/")]),
    tone,
  );
}

function changeCard({ worst_change: worst, history_since: since }, tone) {
  if (!worst)
    return card("Worst change", "none", since ? `since ${moment(since)}` : "no history yet", link(["delays", "change"]), tone);
  return card(
    "Worst change",
    element("span", { class: "card-name" }, worst.node),
    `${signedMs(worst.change_ms)} since ${moment(worst.since)}`,
    link(["nodes", worst.node]),
    tone,
  );
}

const LISTED_EACH = 6;

/** "Go to" in the header: nodes and pods by a part of their name. Arrow keys choose, Enter goes, Escape closes. */
export function searchBox() {
  const list = element("ul", { id: "go-to", role: "listbox", hidden: true, "aria-label": "Places" });
  const input = element("input", {
    type: "search",
    placeholder: "Go to a node or pod",
    role: "combobox",
    "aria-label": "Go to a node or pod",
    "aria-expanded": "false",
    "aria-controls": "go-to",
    autocomplete: "off",
    spellcheck: "false",
  });
  let at = 0;
  let newest = 0;
  const close = () => {
    list.hidden = true;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  };
  const choose = (index) => {
    at = (index + list.children.length) % list.children.length;
    [...list.children].forEach((option, i) => option.setAttribute("aria-selected", i === at));
    input.setAttribute("aria-activedescendant", list.children[at].id);
  };
  const show = async () => {
    newest += 1;
    const asked = newest;
    if (!input.value.trim()) return close();
    const places = await suggestions(input.value.trim());
    if (asked !== newest) return;
    list.replaceChildren(...places.map(option));
    list.hidden = !places.length;
    input.setAttribute("aria-expanded", String(!list.hidden));
    if (places.length) choose(0);
  };
  input.addEventListener("input", () => show().catch(close));
  input.addEventListener("blur", () => setTimeout(close, 150));
  input.addEventListener("keydown", (event) => {
    if (event.key === "Escape") return ((input.value = ""), close(), input.blur());
    if (list.hidden) return;
    if (event.key === "ArrowDown") return (event.preventDefault(), choose(at + 1));
    if (event.key === "ArrowUp") return (event.preventDefault(), choose(at - 1));
    if (event.key === "Enter") list.children[at].dispatchEvent(new MouseEvent("mousedown", { bubbles: true }));
  });
  list.addEventListener("mousedown", (event) => {
    const place = event.target.closest("li");
    if (!place) return;
    location.hash = place.dataset.place;
    input.value = "";
    close();
    input.blur();
  });
  return { box: element("div", { class: "go-to" }, input, list), focus: () => input.focus() };
}

async function suggestions(text) {
  const [nodes, decisions] = await Promise.all([
    get("/nodes", { search: text, limit: LISTED_EACH }),
    get("/decisions", { search: text, limit: LISTED_EACH }),
  ]);
  const pods = [...new Set(decisions.items.map((decision) => decision.pod))];
  return [
    ...nodes.items.map((node) => ({ kind: "node", name: node.name, place: link(["nodes", node.name]) })),
    ...pods.map((pod) => ({ kind: "pod", name: pod, place: link(["pods", ...pod.split("/")]) })),
  ];
}

function option({ kind, name, place }, index) {
  return element(
    "li",
    { id: `go-to-${index}`, role: "option", "aria-selected": "false", "data-place": place },
    element("span", {}, name),
    element("span", { class: "quiet" }, kind),
  );
}

/** Keys that are typed after g, and the view they open. */
export const GO_KEYS = {
  d: "delays",
  w: "within",
  p: "pods",
  n: "nodes",
  r: "rewards",
  h: "health",
};

const KEYS = [
  ["/", "go to a node or pod"],
  ["g, then d w p n r h", "Delays, Near a node, Pods, Nodes, Rewards, Health"],
  ["c", "compare two moments"],
  ["i", "what if: decide a pasted pod"],
  ["t", "automatic, light or dark"],
  ["arrow keys, Enter", "walk the heatmap, open a cell"],
  ["?", "this list"],
  ["Esc", "close"],
];

export function helpDialog() {
  const close = element("button", { type: "button", on: { click: () => dialog.close() } }, "Close");
  const dialog = element(
    "dialog",
    { "aria-labelledby": "help-title" },
    element("h2", { id: "help-title" }, "Keys"),
    element(
      "dl",
      { class: "keys" },
      KEYS.map(([keys, what]) =>
        element("div", {}, element("dt", {}, element("kbd", {}, keys)), element("dd", {}, what)),
      ),
    ),
    element("p", { class: "quiet" }, "Each view has an address of its own: copy it to show somebody what you see."),
    close,
  );
  return dialog;
}
