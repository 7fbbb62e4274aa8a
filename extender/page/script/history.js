import { get, path } from "./api.js";
import { anchor, element, panel } from "./dom.js";
import { duration, moment, ms, orUnknown, signedMs } from "./format.js";
import { keepInAddress } from "./router.js";
import { historyLine } from "./sparkline.js";
import { table } from "./table.js";

const SPANS = ["1h", "6h", "24h", "48h", "7d"];
const REPLICA_KEEPS =
  "it keeps a value a minute for an hour, each node's median each half hour for 48 hours, and begins with nothing when it restarts";
/** From this step on Prometheus is asked for the largest value since the one before. */
const PEAK_STEP_SECONDS = 300;

/** Where a history is from, and why it is not from elsewhere. before: what the first line begins with. */
export function originLines(origin, before = "") {
  return [
    element("p", { class: "quiet origin" }, `${before}${originText(origin)}`),
    origin.note ? element("p", { class: "problem warning" }, origin.note) : null,
  ];
}

function originText({ source, since, step_seconds: step }) {
  if (source === "replica") return `from this replica, since ${moment(since)}; ${REPLICA_KEEPS}`;
  if (step === null) return "from Prometheus, which has the peers that last";
  return `from Prometheus, ${step >= PEAK_STEP_SECONDS ? `the largest of each ${duration(step)}` : `${duration(step)} apart`}`;
}

/** A panel with a pair's history over a span of choice, and an async function that asks for it again. */
export function pairHistory(a, b, chosen, signal) {
  let span = SPANS.includes(chosen) ? chosen : SPANS[0];
  const body = element("div", {});
  const buttons = SPANS.map((each) =>
    element("button", { type: "button", "aria-pressed": String(each === span), on: { click: () => choose(each) } }, each),
  );
  const choose = (each) => {
    span = each;
    buttons.forEach((button) => button.setAttribute("aria-pressed", String(button.textContent === span)));
    keepInAddress({ since: span });
    return refresh();
  };
  const refresh = async () => {
    const asked = span;
    try {
      const { origin, items } = await get(path("delays", "pairs", a, b, "history"), { since: asked }, signal);
      if (asked !== span) return;
      const points = items.map((point) => ({ at: point.at, value: point.rtt_ms }));
      body.replaceChildren(historyLine(points, "Round trip"), ...originLines(origin).filter(Boolean));
    } catch (error) {
      if (!signal.aborted) body.replaceChildren(element("p", { class: "problem" }, error.message));
    }
  };
  const shown = panel(
    "History, the slower direction",
    { aside: element("div", { class: "presets", role: "group", "aria-label": "How far back" }, buttons) },
    body,
  );
  return { panel: shown, refresh };
}

/** The pairs that changed most between two moments. pairs: null where they are not known, with a note why. */
export function pairChanges(pairs, note) {
  if (pairs === null) return element("p", { class: "quiet" }, note);
  const columns = [
    {
      title: "Measured by, to",
      cell: (pair) => anchor(["delays", pair.source, pair.target], `${pair.source} → ${pair.target}`),
    },
    { title: "Before", number: true, cell: (pair) => orUnknown(pair.before_ms, ms) },
    { title: "After", number: true, cell: (pair) => orUnknown(pair.after_ms, ms) },
    { title: "Change", number: true, cell: (pair) => orUnknown(pair.change_ms, signedMs) },
  ];
  return table("Changes of pairs", columns, pairs, {
    whenEmpty: "No pair that lasts has a value at both moments.",
  });
}
