import { change, delays, delaysTile, lostLinks } from "./delays.js";
import { anchor, currentPlace, drawing, element, inLocalTime, link, match, moment, panel } from "./dom.js";
import { emptyStrip, GO_KEYS, helpDialog, otherProblems, searchBox, strip } from "./header.js";
import { health } from "./health.js";
import { follow, get } from "./api.js";
import { applyTheme, chosenTheme, nextTheme } from "./colors.js";
import { node, nodes } from "./nodes.js";
import { pair } from "./pair.js";
import { podDecision, pods, whatIf } from "./pods.js";
import { rewards } from "./rewards.js";
import { within, withinAny } from "./within.js";

/**
 * A view is view(root, parameters, signal, query): it puts what stays into the root, and returns an async function that asks the
 * server and fills in what changes. The signal ends with the view.
 */
const ROUTES = [
  ["delays", delays],
  ["delays/change", change],
  ["delays/lost", lostLinks],
  ["delays/tile/:row/:column", delaysTile],
  ["delays/:a/:b", pair],
  ["within", withinAny],
  ["within/:node/:bound", within],
  ["pods", pods],
  ["pods/:namespace/:name", podDecision],
  ["what-if", whatIf],
  ["nodes", nodes],
  ["nodes/:name", node],
  ["rewards", rewards],
  ["health", health],
];
/** Tabs: the first segment of the address, and the name. */
const VIEWS = new Map([
  ["delays", "Delays"],
  ["within", "Near a node"],
  ["pods", "Pods"],
  ["nodes", "Nodes"],
  ["rewards", "Rewards"],
  ["health", "Health"],
]);
const TAB_OF = { "what-if": "pods" };
/** Sections of an event that a view shows, by the first segment of its address. */
const SECTIONS = {
  delays: ["delays", "nodes"],
  within: [],
  pods: ["decisions"],
  "what-if": [],
  rewards: ["nodes"],
  health: ["nodes", "decisions"],
};

const view = document.getElementById("view");
let current = { refresh: async () => {}, stop: new AbortController() };

async function showPlace() {
  const { segments, query } = currentPlace();
  current.stop.abort();
  const stop = new AbortController();
  const route = match(ROUTES, segments);
  markTab(segments[0]);
  view.replaceChildren();
  view.setAttribute("aria-busy", "true");
  delete document.documentElement.dataset.painted;
  if (!route) {
    view.append(
      panel(
        "No such place",
        { class: "failure" },
        element("p", {}, `This page has nothing at ${location.hash}. `, anchor(["delays"], "Go to Delays")),
      ),
    );
    return painted();
  }
  current = { refresh: route.view(view, route.parameters, stop.signal, query), stop };
  try {
    await current.refresh();
  } catch (error) {
    if (stop.signal.aborted) return undefined;
    showError(error);
  }
  return stop.signal.aborted ? undefined : painted();
}

/** For measurements and tests: the view was drawn with its data. */
function painted() {
  view.removeAttribute("aria-busy");
  requestAnimationFrame(() =>
    setTimeout(() => {
      document.documentElement.dataset.painted = location.hash;
      performance.mark("painted");
    }),
  );
}

function showError(error) {
  const again = element("button", { type: "button", on: { click: showPlace } }, "Try again");
  const allowed = error.status === 400 && error.detail?.allowed
    ? element("p", { class: "quiet" }, `${error.detail.field}: ${error.detail.value}; allowed: ${error.detail.allowed}`)
    : null;
  view.replaceChildren(
    panel(
      error.status === 404 ? "Not found" : "This could not be shown",
      { class: "failure" },
      element("p", {}, error.message),
      allowed,
      again,
    ),
  );
}

function markTab(first) {
  const tab = TAB_OF[first] ?? first;
  for (const each of document.querySelectorAll("#bar nav a")) {
    if (each.dataset.tab !== tab) {
      each.removeAttribute("aria-current");
      continue;
    }
    each.setAttribute("aria-current", "page");
    each.scrollIntoView({ block: "nearest", inline: "nearest" });
  }
  const title = VIEWS.get(tab);
  document.title = title ? `${title} · Leadsman` : "Leadsman";
}

const liveMark = element("span", { class: "live", role: "status" }, "connecting");
const search = searchBox();
const help = helpDialog();
const themeButton = element("button", { type: "button", class: "quiet-button", on: { click: () => turnTheme() } });

function turnTheme() {
  nextTheme();
  nameTheme();
}

function nameTheme() {
  themeButton.setAttribute("aria-label", `Theme: ${chosenTheme()}`);
  themeButton.replaceChildren(
    element("span", { class: "theme-mark", "aria-hidden": "true" }),
    element("span", { class: "theme-name" }, chosenTheme()),
  );
}

function buildBar() {
  const logo = drawing(
    "svg",
    { viewBox: "0 0 32 32", class: "logo", "aria-hidden": "true" },
    drawing("rect", { width: 32, height: 32, rx: 8, class: "logo-sea" }),
    drawing("path", { d: "M16 5v13", class: "logo-line" }),
    drawing("path", { d: "M12.4 18h7.2l1.8 9H10.6z", class: "logo-lead" }),
  );
  const tabs = [...VIEWS].map(([tab, name]) => element("a", { href: link([tab]), "data-tab": tab }, name));
  const helpButton = element(
    "button",
    { type: "button", class: "quiet-button", "aria-label": "Keys", on: { click: () => help.showModal() } },
    "?",
  );
  document
    .getElementById("bar")
    .append(
      element("h1", {}, element("a", { href: link(["delays"]), class: "brand" }, logo, "Leadsman")),
      element("nav", { "aria-label": "Views", tabindex: "0" }, tabs),
      element("div", { class: "tools" }, search.box, liveMark, themeButton, helpButton),
    );
  nameTheme();
  document.body.append(help);
  // The address names the view, so that this link must not change it.
  document.querySelector(".skip").addEventListener("click", (event) => (event.preventDefault(), view.focus()));
}

async function showOverview() {
  const overview = await get("/overview");
  const cards = document.getElementById("strip");
  cards.replaceChildren(...strip(overview));
  const notices = otherProblems(overview).map((problem) =>
    element(
      "p",
      { class: `problem ${problem.severity}` },
      element("b", {}, inLocalTime(problem.text)),
      problem.what_to_do ? `: ${problem.what_to_do}` : "",
    ),
  );
  document.getElementById("notices").replaceChildren(...notices);
  const history = overview.history_since ? `history since ${moment(overview.history_since)}` : "no history yet";
  document.getElementById("foot").textContent =
    `Leadsman ${overview.version}, ${overview.replica}, revision ${overview.revision}, ${history}, as of ${moment(overview.at, true)}`;
}

/** What was shown stays, and the mark in the header says that it is old. */
function keepOld(error) {
  if (error.name === "AbortError") return;
  setLive(false, error.message);
}

function setLive(
  connected,
  why = "The stream of changes is interrupted; the browser reconnects by itself. What you see is the last answer.",
) {
  liveMark.textContent = connected ? "live" : "not live";
  liveMark.className = connected ? "live on" : "live off";
  liveMark.title = connected ? "Changes are shown within seconds." : "";
  document.getElementById("not-live")?.remove();
  if (!connected)
    document.getElementById("notices").prepend(element("p", { class: "problem warning", id: "not-live" }, why));
}

function changed(sections) {
  showOverview().then(() => setLive(true), keepOld);
  const first = currentPlace().segments[0];
  const shown = SECTIONS[first] ?? [first];
  // What somebody types in, or has come to by keys, is not replaced below them.
  const typing = view.querySelector("textarea:focus, canvas:focus, a:focus-visible, button:focus-visible") !== null;
  if (
    !typing &&
    !view.hasAttribute("aria-busy") &&
    (sections.includes("all") || sections.some((section) => shown.includes(section)))
  ) {
    current.refresh().catch(keepOld);
  }
}

let afterG = false;
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, textarea, select")) return;
  if (document.querySelector("dialog[open]")) return;
  const go = afterG && GO_KEYS[event.key];
  afterG = event.key === "g";
  if (go) location.hash = link([go]);
  else if (event.key === "/") search.focus();
  else if (event.key === "?") help.showModal();
  else if (event.key === "t") turnTheme();
  else if (event.key === "c") location.hash = link(["delays", "change"]);
  else if (event.key === "i") location.hash = link(["what-if"]);
  else return;
  event.preventDefault();
});

applyTheme(chosenTheme());
buildBar();
document.getElementById("strip").append(...emptyStrip());
window.addEventListener("hashchange", () => (location.hash.startsWith("#/") || !location.hash) && showPlace());
showOverview().catch(keepOld);
showPlace();
follow(changed, setLive);
