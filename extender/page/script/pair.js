import { get, path, post } from "./api.js";
import { historyLine } from "./controls.js";
import { anchor, duration, element, empty, ms, orUnknown, panel, percent, range } from "./dom.js";

const DIRECTION_ROWS = [
  ["Round trip, median", (way) => (way.sent && !way.received ? element("b", { class: "bad" }, `no reply, 0 of ${way.sent}`) : orUnknown(way.rtt_ms, ms))],
  ["95th percentile", (way) => orUnknown(way.p95_ms, ms)],
  ["Least", (way) => orUnknown(way.min_ms, ms)],
  ["Jitter", (way) => orUnknown(way.jitter_ms, ms)],
  [
    "Answered",
    (way) =>
      way.sent ? `${way.received} of ${way.sent} probes (${percent(way.received / way.sent)})` : orUnknown(null),
  ],
  ["Age", (way) => orUnknown(way.age_seconds, duration)],
  ["Measured by", (way) => `the agent of ${way.reporter}`],
];

/** All that is measured and estimated of one pair: #/delays/<a>/<b>. */
export function pair(root, { a, b }, signal) {
  const crumbs = element(
    "div",
    { class: "crumbs" },
    anchor(["delays"], "Delays"),
    element("span", {}, "›"),
    element("b", {}, `${a} → ${b}`),
  );
  const body = element("div", { class: "stack" });
  const measureNote = element("span", { class: "quiet", role: "status" });
  const measure = element(
    "button",
    { type: "button", on: { click: () => measureNow(a, b, measure, measureNote) } },
    "Measure now",
  );
  root.append(crumbs, body);
  return async () => {
    const answer = await get(path("delays", "pairs", a, b), {}, signal);
    body.replaceChildren(
      panel(
        `${a} → ${b}`,
        { aside: [measure, measureNote] },
        element(
          "p",
          { class: "headline" },
          element("b", {}, orUnknown(answer.used.rtt_ms, ms)),
          element("span", {}, " counts in decisions"),
        ),
        element("p", { class: "quiet" }, answer.used.reason),
      ),
      element(
        "div",
        { class: "two" },
        directions(answer),
        element("div", { class: "stack" }, estimate(answer), lastHour(answer)),
      ),
    );
  };
}

function directions({ a, b, forward, backward }) {
  if (!forward && !backward) {
    return panel(
      "Measured",
      {},
      empty("Neither node probes the other: each node probes some 16 peers, so most pairs are estimates."),
    );
  }
  const cell = (way, format) => (way ? format(way) : element("span", { class: "unknown" }, "not measured"));
  const rows = DIRECTION_ROWS.map(([name, format]) =>
    element(
      "tr",
      {},
      element("th", { scope: "row" }, name),
      element("td", {}, cell(forward, format)),
      element("td", {}, cell(backward, format)),
    ),
  );
  const head = element(
    "tr",
    {},
    element("td", {}),
    element("th", { scope: "col" }, `from ${a}`),
    element("th", { scope: "col" }, `from ${b}`),
  );
  return panel(
    "Measured",
    {},
    element(
      "div",
      { class: "table-scroll", tabindex: "0", role: "group", "aria-label": "Both directions" },
      element("table", {}, element("thead", {}, head), element("tbody", {}, rows)),
    ),
  );
}

function estimate({ estimate: estimated }) {
  if (!estimated) return panel("Estimated", {}, empty("No estimate: one of the nodes has no coordinate yet."));
  const coverage =
    estimated.coverage === null ? "" : ` ${percent(estimated.coverage)} of measured pairs lie within such an interval.`;
  return panel(
    "Estimated",
    {},
    element("p", { class: "headline" }, element("b", {}, ms(estimated.rtt_ms))),
    range(estimated.low_ms, estimated.high_ms) && element("p", {}, `${range(estimated.low_ms, estimated.high_ms)}.${coverage}`),
    element("p", { class: "quiet" }, "A bound without a measurement is judged by the upper end."),
  );
}

function lastHour({ history, grafana_url: more }) {
  const points = history.map((point) => ({ at: point.at, value: point.rtt_ms }));
  const aside = more ? element("a", { href: more, target: "_blank", rel: "noreferrer" }, "More of the past, in Grafana") : [];
  return panel("The last hour, the slower direction", { aside }, historyLine(points, "Round trip"));
}

async function measureNow(source, target, button, note) {
  button.disabled = true;
  note.textContent = "asking…";
  try {
    const { accepted, reason } = await post("/measure", { source, target });
    note.textContent = accepted ? `The agent of ${source} is asked; its next report has the answer.` : reason;
  } catch (error) {
    note.textContent = error.message;
  }
  button.disabled = false;
}
