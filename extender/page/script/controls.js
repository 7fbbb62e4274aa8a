import { get } from "./api.js";
import { count, drawing, element, empty, moment, ms } from "./dom.js";

/**
 * A table. columns: [{title, cell(item) → child, number?: bool, class?: string}]. Where it is wider than the screen it scrolls by
 * itself, so the page never does. A class `wide-only` hides a column on a phone. stacks: there a row's cells stand below each other,
 * each after its title: for columns of sentences.
 */
export function table(label, columns, items, { whenEmpty = "Nothing to show.", rowClass = () => null, stacks = false } = {}) {
  if (!items.length) return empty(whenEmpty);
  const classes = (column) => [column.number && "number", column.class].filter(Boolean).join(" ") || null;
  const head = element(
    "tr",
    {},
    columns.map((column) => element("th", { scope: "col", class: classes(column) }, column.title)),
  );
  const rows = items.map((item) =>
    element(
      "tr",
      { class: rowClass(item) },
      columns.map((column) =>
        element(
          "td",
          { class: classes(column), "data-title": column.title },
          stacks ? element("div", {}, column.cell(item)) : column.cell(item),
        ),
      ),
    ),
  );
  return element(
    "div",
    { class: "table-scroll", tabindex: "0", role: "group", "aria-label": label },
    element("table", { class: stacks && "stacks" }, element("thead", {}, head), element("tbody", {}, rows)),
  );
}

/**
 * A list that the server pages: `fetchPage(cursor)` → {items, next, total}, `draw(items)` → element. `refresh()` asks again for as
 * many as are shown; `restart()` for the first page of another question, and shows why it got none.
 */
export function pagedList(fetchPage, draw) {
  const body = element("div", { class: "paged" });
  let pages = 1;
  const refresh = async () => {
    const items = [];
    let page = { next: null, total: 0 };
    for (let i = 0; i < pages; i += 1) {
      page = await fetchPage(i ? page.next : null);
      items.push(...page.items);
      if (!page.next) break;
    }
    const more = element("button", { type: "button", on: { click: () => addPage() } }, "Show more");
    const foot = page.next
      ? element("p", { class: "more" }, `${count(items.length)} of ${count(page.total)} `, more)
      : "";
    body.replaceChildren(draw(items, page), foot);
  };
  const addPage = () => {
    pages += 1;
    return refresh();
  };
  const restart = async () => {
    pages = 1;
    try {
      await refresh();
    } catch (error) {
      if (error.name !== "AbortError") body.replaceChildren(element("p", { class: "problem" }, error.message));
    }
  };
  return { body, refresh, restart };
}

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

const WIDTH = 600;
const HEIGHT = 120;
const LABEL = 12;

/** points: [{at, value: number | null}], oldest first, drawn by their times. Where a value is unknown the line is broken. */
export function historyLine(points, label) {
  const values = points.map((point) => point.value).filter((value) => value !== null);
  if (values.length < 2) return element("p", { class: "quiet" }, "Fewer than two values yet: a replica keeps one a minute.");
  const low = Math.min(...values);
  const high = Math.max(...values);
  // At least a fifth of the value from end to end, so that noise does not look like a change.
  const margin = Math.max((high - low) * 0.12, high * 0.1, 0.01);
  const times = points.map((point) => Date.parse(point.at));
  const x = (i) => ((times[i] - times[0]) / (times.at(-1) - times[0])) * WIDTH;
  const y = (value) => HEIGHT - ((value - low + margin) / (high - low + 2 * margin)) * HEIGHT;
  const line = drawing("path", { d: pathOf(points, x, y), class: "spark-line", "vector-effect": "non-scaling-stroke" });
  const text = `${label}: ${ms(low)} to ${ms(high)}, ${moment(points[0].at)} to ${moment(points.at(-1).at)}`;
  const picture = drawing(
    "svg",
    { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", class: "spark", role: "img", "aria-label": text },
    line,
  );
  return element(
    "figure",
    { class: "spark-figure" },
    axis(y(high), y(low), high, low),
    picture,
    element("figcaption", {}, element("span", {}, moment(points[0].at)), element("span", {}, moment(points.at(-1).at))),
  );
}

/** The highest and the lowest value beside the line; one where two would cover each other. */
function axis(top, bottom, high, low) {
  const labels = bottom - top < LABEL ? [high] : [high, low];
  return element(
    "div",
    { class: "spark-axis", style: { padding: `${top - LABEL / 2}px 0 ${HEIGHT - bottom - LABEL / 2}px` } },
    labels.map((value) => element("span", {}, ms(value))),
  );
}

function pathOf(points, x, y) {
  let path = "";
  let broken = true;
  points.forEach(({ value }, i) => {
    if (value !== null) path += `${broken ? "M" : "L"}${x(i).toFixed(1)} ${y(value).toFixed(1)}`;
    broken = value === null;
  });
  return path;
}
