const SVG = "http://www.w3.org/2000/svg";

/**
 * An element. Children become text nodes, and properties attributes, so text of the cluster is never read as HTML.
 * A property null or false is left out; `on` holds listeners by event, `style` values by CSS property.
 */
export function element(tag, properties = {}, ...children) {
  return fill(document.createElement(tag), properties, children);
}

/** The same in SVG. */
export function drawing(tag, properties = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), properties, children);
}

function fill(node, { on = {}, style = {}, ...attributes }, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  for (const [event, listener] of Object.entries(on)) node.addEventListener(event, listener);
  for (const [property, value] of Object.entries(style)) node.style.setProperty(property, value);
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

/** A hash that names a place of this page: link(["pods", "shop", "cart-7"], {search: "x"}). */
export function link(segments, query = {}) {
  const path = `#/${segments.map(encodeURIComponent).join("/")}`;
  const given = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
  return given.length ? `${path}?${new URLSearchParams(given)}` : path;
}

export function anchor(segments, ...children) {
  return element("a", { href: link(segments) }, ...children);
}

/** A panel with a heading of the second level. `aside`: what stands right of the heading. */
export function panel(title, { aside = [], ...properties } = {}, ...children) {
  const head = element(
    "div",
    { class: "panel-head" },
    element("h2", {}, title),
    element("div", { class: "panel-aside" }, aside),
  );
  return element(
    "section",
    { ...properties, class: `panel ${properties.class ?? ""}`, "aria-label": title },
    head,
    ...children,
  );
}

/** What stands where there is nothing to list, and why. */
export function empty(text, ...more) {
  return element("div", { class: "empty" }, element("p", {}, text), ...more);
}
