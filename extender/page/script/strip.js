import { element, link } from "./dom.js";
import { count, duration, moment, ms, orUnknown, percent, plural, signedMs } from "./format.js";

const SOON_DAYS_LEFT = 14;

/** The cluster at a glance, each card a link to what explains it. overview: the answer of /overview. */
export function strip(overview) {
  return [
    nodesCard(overview),
    pairsCard(overview),
    changeCard(overview),
    decisionsCard(overview),
    refusalsCard(overview),
    neutralCard(overview),
    waitingCard(overview),
    certificatesCard(overview),
  ];
}

/** The same cards without a value, until the first answer. */
export function emptyStrip() {
  return Array.from({ length: 8 }, () => element("div", { class: "card loading" }));
}

function card(title, value, note, href, tone = "") {
  return element(
    "a",
    { class: `card ${tone}`, href },
    element("span", { class: "card-title" }, title),
    element("span", { class: "card-value" }, value),
    element("span", { class: "card-note" }, note),
  );
}

function nodesCard({ nodes }) {
  const all = nodes.fresh + nodes.provisional + nodes.stale + nodes.unknown;
  const rest = ["provisional", "stale", "unknown"]
    .filter((status) => nodes[status])
    .map((status) => `${count(nodes[status])} ${status}`);
  return card(
    "Nodes fresh",
    [count(nodes.fresh), element("small", {}, ` / ${count(all)}`)],
    rest.join(", ") || "all of them",
    link(["nodes"], { sort: "age" }),
    nodes.stale || nodes.unknown ? "warn" : "",
  );
}

function pairsCard({ pairs }) {
  const all = pairs.measured + (pairs.estimated ?? 0);
  const share = all ? `${percent(pairs.measured / all)} of all` : "none yet";
  return card(
    "Pairs measured",
    count(pairs.measured),
    pairs.lost ? `${share}, ${count(pairs.lost)} lost` : share,
    link(["delays"]),
  );
}

function changeCard({ worst_change: worst, history_since: since }) {
  if (!worst)
    return card(
      "Worst change",
      "none",
      since ? `history since ${moment(since)}` : "no history yet",
      link(["delays", "change"]),
    );
  return card(
    "Worst change",
    element("span", { class: "card-name" }, worst.node),
    `${signedMs(worst.change_ms)} since ${moment(worst.since)}`,
    link(["nodes", worst.node]),
    "warn",
  );
}

function decisionsCard({ decisions }) {
  const times =
    decisions.p99_ms === null ? "none in the last minute" : `p50\u00a0${ms(decisions.p50_ms)}, p99\u00a0${ms(decisions.p99_ms)}`;
  return card(
    "Decisions / min",
    orUnknown(decisions.per_minute, (value) => count(Math.round(value))),
    times,
    link(["pods"]),
  );
}

function refusalsCard({ decisions }) {
  const reasons = [...decisions.refused_by_reason].sort((a, b) => b.count - a.count);
  const note = reasons.length ? `${count(reasons[0].count)}: ${reasons[0].reason}` : "by no kept decision";
  return card("Nodes refused", count(decisions.refused), note, link(["pods"]));
}

function neutralCard({ decisions }) {
  return card(
    "Neutral answers",
    orUnknown(decisions.neutral, count),
    decisions.neutral ? "all nodes passed alike" : "none since start",
    link(["health"]),
    decisions.neutral ? "warn" : "",
  );
}

function waitingCard({ waiting }) {
  if (!waiting.bounded_pods) return card("Pods waiting", "0", "no bounded pod waits", link(["pods"]));
  const pod = waiting.pod ? `, ${waiting.pod}` : "";
  const href = waiting.pod ? link(["pods", ...waiting.pod.split("/")]) : link(["pods"]);
  return card(
    "Pods waiting",
    count(waiting.bounded_pods),
    `longest ${duration(waiting.longest_seconds)}${pod}`,
    href,
    "warn",
  );
}

function certificatesCard({ certificates }) {
  const dated = certificates
    .filter((certificate) => certificate.days_left !== null)
    .sort((a, b) => a.days_left - b.days_left);
  if (!dated.length)
    return card(
      "Certificates",
      certificates.length ? orUnknown(null) : "none",
      certificates.length ? "no file could be read" : "no TLS in use",
      link(["health"]),
    );
  const [first] = dated;
  return card(
    "Certificates",
    plural(Math.floor(first.days_left), "day"),
    `${first.name} ends first`,
    link(["health"]),
    first.days_left < SOON_DAYS_LEFT ? "warn" : "",
  );
}
