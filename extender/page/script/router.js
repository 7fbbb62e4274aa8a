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
