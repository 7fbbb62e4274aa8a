import { get } from "./api.js";
import { element, link } from "./dom.js";

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
