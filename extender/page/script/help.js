import { element } from "./dom.js";

/** Keys that are typed after g, and the view they open. */
export const GO_KEYS = {
  d: "delays",
  w: "within",
  p: "pods",
  n: "nodes",
  r: "rewards",
  o: "policies",
  h: "health",
};

const KEYS = [
  ["/", "go to a node or pod"],
  ["g, then d w p n r o h", "Delays, Within, Pods, Nodes, Rewards, Policies, Health"],
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
