import { drawing, element } from "./dom.js";
import { moment, ms } from "./format.js";

const WIDTH = 600;
const HEIGHT = 120;
const LABEL = 12;

/** points: [{at, value: number | null}], oldest first, drawn by their times. Where a value is unknown the line is broken. */
export function historyLine(points, label) {
  const values = points.map((point) => point.value).filter((value) => value !== null);
  if (values.length < 2) return element("p", { class: "quiet" }, "Fewer than two values yet: a replica keeps one a minute.");
  const low = Math.min(...values);
  const high = Math.max(...values);
  // At least a fifth of the value from end to end, so that noise does not look like a change.
  const margin = Math.max((high - low) * 0.12, high * 0.1, 0.01);
  const times = points.map((point) => Date.parse(point.at));
  const x = (i) => ((times[i] - times[0]) / (times.at(-1) - times[0])) * WIDTH;
  const y = (value) => HEIGHT - ((value - low + margin) / (high - low + 2 * margin)) * HEIGHT;
  const line = drawing("path", { d: pathOf(points, x, y), class: "spark-line", "vector-effect": "non-scaling-stroke" });
  const text = `${label}: ${ms(low)} to ${ms(high)}, ${moment(points[0].at)} to ${moment(points.at(-1).at)}`;
  const picture = drawing(
    "svg",
    { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", class: "spark", role: "img", "aria-label": text },
    line,
  );
  return element(
    "figure",
    { class: "spark-figure" },
    axis(y(high), y(low), high, low),
    picture,
    element("figcaption", {}, element("span", {}, moment(points[0].at)), element("span", {}, moment(points.at(-1).at))),
  );
}

/** The highest and the lowest value beside the line; one where two would cover each other. */
function axis(top, bottom, high, low) {
  const labels = bottom - top < LABEL ? [high] : [high, low];
  return element(
    "div",
    { class: "spark-axis", style: { padding: `${top - LABEL / 2}px 0 ${HEIGHT - bottom - LABEL / 2}px` } },
    labels.map((value) => element("span", {}, ms(value))),
  );
}

function pathOf(points, x, y) {
  let path = "";
  let broken = true;
  points.forEach(({ value }, i) => {
    if (value !== null) path += `${broken ? "M" : "L"}${x(i).toFixed(1)} ${y(value).toFixed(1)}`;
    broken = value === null;
  });
  return path;
}
