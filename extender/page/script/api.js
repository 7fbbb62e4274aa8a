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

/** The browser forgets the token. A caller that cannot reach the server keeps it, and is told so. */
export async function signOut() {
  const response = await reached(fetch("/sign-out", { method: "POST" }));
  if (!response.ok) throw await refusal(response);
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
  if (response.status === 401) {
    return new RequestFailed(
      401,
      location.protocol === "https:"
        ? "The token with which you signed in is no longer valid. Reload this page, and sign in with another."
        : "This session has ended. Run `kubectl leadsman page` again, and open the address that it prints.",
    );
  }
  try {
    const { error } = await response.json();
    return new RequestFailed(response.status, error.message, error);
  } catch {
    return new RequestFailed(response.status, `The extender answered with status ${response.status} and no reason.`);
  }
}
