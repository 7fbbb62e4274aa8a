const ROOT = "/api/v1";

/** What the server refused. `detail`: {field, value, allowed}, where it said so. */
export class RequestFailed extends Error {
  constructor(status, message, detail = {}) {
    super(message);
    this.status = status;
    this.detail = detail;
  }
}

export async function get(path, query = {}, signal = undefined) {
  // The browser keeps the last answer and asks with its ETag.
  return answer(fetch(address(path, query), { cache: "no-cache", signal, headers: { Accept: "application/json" } }));
}

export async function post(path, body, query = {}, signal = undefined) {
  const headers = { Accept: "application/json", "Content-Type": "application/json" };
  return answer(fetch(address(path, query), { method: "POST", body: JSON.stringify(body), signal, headers }));
}

function address(path, query) {
  const given = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
  return `${ROOT}${path}${given.length ? `?${new URLSearchParams(given)}` : ""}`;
}

/** A path of encoded segments: path("pods", "shop", "cart-7"). */
export function path(...segments) {
  return `/${segments.map(encodeURIComponent).join("/")}`;
}

async function answer(request) {
  const response = await reached(request);
  if (response.ok) return response.json();
  throw await refusal(response);
}

async function reached(request) {
  try {
    return await request;
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new RequestFailed(0, "The extender does not answer. It may be restarting, or the port-forward has ended.");
  }
}

async function refusal(response) {
  try {
    const { error } = await response.json();
    return new RequestFailed(response.status, error.message, error);
  } catch {
    return new RequestFailed(response.status, `The extender answered with status ${response.status} and no reason.`);
  }
}

/**
 * Follows the server's events: `changed(sections)` at most every two seconds, `connected(true | false)` at each change.
 * The browser reconnects by itself; what changed meanwhile is asked for then.
 *
 * A page that nobody sees closes its stream. Browsers open six connections to a host, and hidden tabs and pages that wait behind
 * "Back" share them: six streams would leave none for a request.
 */
export function follow(changed, connected) {
  const pending = new Set();
  let timer = null;
  let retry = null;
  let stream = null;
  let missed = false;
  const flush = () => {
    timer = null;
    const sections = [...pending];
    pending.clear();
    changed(sections);
  };
  const add = (sections) => {
    sections.forEach((section) => pending.add(section));
    timer ??= setTimeout(flush, 2000);
  };
  const open = () => {
    stream = new EventSource("/api/v1/events");
    stream.addEventListener("change", (event) => add(JSON.parse(event.data).sections));
    stream.addEventListener("open", () => {
      connected(true);
      if (missed) add(["all"]);
      missed = false;
    });
    stream.addEventListener("error", () => {
      missed = true;
      connected(false);
      // What was refused, as where too many streams are open, no browser asks for again by itself.
      if (stream.readyState === EventSource.CLOSED) retry = setTimeout(open, 30000);
    });
  };
  const close = () => {
    clearTimeout(timer);
    clearTimeout(retry);
    timer = null;
    stream?.close();
    missed = true;
  };
  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  if (document.hidden) missed = true;
  else open();
}
