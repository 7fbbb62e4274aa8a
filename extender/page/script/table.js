import { element, empty } from "./dom.js";
import { count } from "./format.js";

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
