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
