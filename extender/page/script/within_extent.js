/** Of the spread of nine nodes in ten: how far beyond them a node may be and still be drawn at its place. */
const MARGIN_RATIO = 0.5;
const LEAST_MARGIN_MS = 1;

/**
 * What of the coordinates a map shows: {left, right, top, bottom, outside}. A node far beyond nine in ten would press all others
 * into a corner; it is in `outside` instead. The node that the map is about is never outside.
 */
export function extent(items, node) {
  const placed = items.filter((item) => item.x !== null && item.y !== null);
  const [xs, ys] = [fence(placed.map((item) => item.x)), fence(placed.map((item) => item.y))];
  const isInside = ({ name, x, y }) =>
    name === node || (x >= xs.low && x <= xs.high && y >= ys.low && y <= ys.high);
  const inside = placed.filter(isInside);
  const reach = (values) => (values.length ? [Math.min(...values), Math.max(...values)] : [0, 1]);
  const [left, right] = reach(inside.map((item) => item.x));
  const [top, bottom] = reach(inside.map((item) => item.y));
  return { left, right, top, bottom, outside: placed.filter((item) => !isInside(item)) };
}

/** Below 20 nodes, nobody is beyond it. */
function fence(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const low = sorted[Math.floor(0.05 * (sorted.length - 1))] ?? 0;
  const high = sorted[Math.ceil(0.95 * (sorted.length - 1))] ?? 0;
  const margin = Math.max(MARGIN_RATIO * (high - low), LEAST_MARGIN_MS);
  return { low: low - margin, high: high + margin };
}
