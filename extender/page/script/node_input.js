import { get } from "./api.js";
import { element } from "./dom.js";

let inputs = 0;

/** An input that completes names of nodes; `chosen(name)` on Enter or when one is picked. */
export function nodeInput(label, value, chosen) {
  inputs += 1;
  const list = element("datalist", { id: `nodes-${inputs}` });
  const input = element("input", {
    type: "text",
    list: list.id,
    value,
    "aria-label": label,
    placeholder: label,
    autocomplete: "off",
    spellcheck: "false",
  });
  let asked = null;
  input.addEventListener("input", async () => {
    if ([...list.children].some((option) => option.value === input.value)) return chosen(input.value);
    const text = input.value;
    asked = text;
    try {
      const { items } = await get("/nodes", { search: text, limit: 12 });
      if (asked === text) list.replaceChildren(...items.map((node) => element("option", { value: node.name })));
    } catch {
      list.replaceChildren();
    }
  });
  input.addEventListener("keydown", (event) => event.key === "Enter" && input.value && chosen(input.value));
  return element("span", { class: "node-input" }, input, list);
}
