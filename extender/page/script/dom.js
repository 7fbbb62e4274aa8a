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

/** 0.42 ms, 6.3 ms, 118 ms; a line never breaks between number and unit. */
export function ms(value) {
  return `${shortNumber(value)}\u00a0ms`;
}

/** Three digits, as many as a round trip is known by. */
export function shortNumber(value) {
  const size = Math.abs(value);
  const digits = size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2;
  return value.toFixed(digits);
}

/** 2.4 ms to 2.9 ms; "" where both ends read the same. */
export function range(low, high) {
  if (low === null || high === null || ms(low) === ms(high)) return "";
  return `${ms(low)} to ${ms(high)}`;
}

export function signedMs(value) {
  return `${value < 0 ? "−" : "+"}${ms(Math.abs(value))}`;
}

export function count(value) {
  return value.toLocaleString("en-US");
}

export function percent(ratio) {
  const value = 100 * ratio;
  return `${value > 0 && value < 9.95 ? value.toFixed(1) : Math.round(value)} %`;
}

export function plural(number, noun) {
  return `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
}

/** 0.6 s, 41 s, 3 min, 5 h, 12 d. */
export function duration(seconds) {
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  return seconds < 172800 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86400)} d`;
}

/** 14:02 today, 21 Nov 14:02 before; the reader's own time zone. */
export function moment(iso, withSeconds = false) {
  const at = new Date(iso);
  const clock = at.toLocaleTimeString("en-GB", {
    hour: "2-digit",
    minute: "2-digit",
    ...(withSeconds && { second: "2-digit" }),
  });
  const today = at.toDateString() === new Date().toDateString();
  return today ? clock : `${at.toLocaleDateString("en-GB", { day: "numeric", month: "short" })} ${clock}`;
}

/** A server's sentence with its times of day, as "14:02 UTC", in the reader's own time zone. */
export function inLocalTime(text) {
  return text.replace(/\b(\d\d):(\d\d) UTC\b/g, (_, hours, minutes) => {
    const at = new Date().setUTCHours(hours, minutes, 0, 0);
    return moment(at > Date.now() ? at - 86_400_000 : at);
  });
}

/** `format(value)`, or the word unknown where there is no value: unknown is never drawn as 0. */
export function orUnknown(value, format = String) {
  if (value === null || value === undefined) return element("span", { class: "unknown" }, "unknown");
  return format(value);
}

/** The hash as a place: "#/pods/shop/cart-7?search=x" → {segments: ["pods", "shop", "cart-7"], query: {search: "x"}}. */
export function currentPlace() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const segments = path.split("/").filter(Boolean).map(decoded);
  return { segments: segments.length ? segments : ["delays"], query: Object.fromEntries(new URLSearchParams(query)) };
}

/** A hash that somebody mistyped stays as it is. */
function decoded(segment) {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

/**
 * The first route that matches, with its parameters; routes: [[pattern, view]], pattern as "pods/:namespace/:name". null: none
 * does.
 */
export function match(routes, segments) {
  for (const [pattern, view] of routes) {
    const parts = pattern.split("/");
    const fits =
      parts.length === segments.length && parts.every((part, i) => part.startsWith(":") || part === segments[i]);
    if (!fits) continue;
    const named = parts.flatMap((part, i) => (part.startsWith(":") ? [[part.slice(1), segments[i]]] : []));
    return { view, parameters: Object.fromEntries(named) };
  }
  return null;
}

/** Keeps what is searched and sorted in the address, without a step in the browser's history. */
export function keepInAddress(query) {
  const [path] = location.hash.split("?");
  const given = Object.entries(query).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  const text = given.length ? `?${new URLSearchParams(given)}` : "";
  window.history.replaceState(null, "", `${path || "#/delays"}${text}`);
}
