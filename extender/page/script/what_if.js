import { get, post } from "./api.js";
import { decisionParts, nodesList, partsLegend } from "./decision.js";
import { anchor, element, panel } from "./dom.js";

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
