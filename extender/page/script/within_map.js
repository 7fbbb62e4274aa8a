import { color, onThemeChange } from "./colors.js";
import { element, ms } from "./dom.js";

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

const PADDING = 44;
/** Of what is beyond the map, from its border. */
const EDGE = 10;
/** Nodes up to which each has its name beside it, where there is room. */
const NAMED = 40;
/** Of a name's height, and of half a node's width. */
const LINE = 13;
const DOT = 5;

/**
 * Nodes at their coordinates, on a canvas. `places(items, node)` sets them, `drag(bound)` is called while the ring is dragged,
 * `pick(name)` when a node is clicked. Distances on the map are only near the truth: colors come from the values, not from the ring.
 */
export function withinMap({ drag, pick }, signal) {
  const canvas = element("canvas", { role: "img", "aria-label": "Map of nodes by their coordinates" });
  const tip = element("div", { class: "tip", hidden: true });
  const box = element("div", { class: "map" }, canvas, tip);
  const state = { items: [], node: "", bound: 10, near: null, dragging: false };
  let view = null;

  const draw = () => {
    if (!box.isConnected || !box.clientWidth) return;
    view = fit(state, box.clientWidth, box.clientHeight);
    paintMap(canvas, view, state);
    canvas.setAttribute(
      "aria-label",
      `Map: ${state.items.filter((item) => item.passes).length} of ${state.items.length} nodes are within ${ms(state.bound)} of ${state.node}`,
    );
  };
  const boundAt = (event) =>
    Math.max(0.1, Math.hypot(event.offsetX - view.center[0], event.offsetY - view.center[1]) / view.perMs);
  const onRing = (event) => view?.center && Math.abs(boundAt(event) - state.bound) * view.perMs < 9;
  canvas.addEventListener("pointerdown", (event) => {
    if (!onRing(event) || nearest(view, state.items, event)) return;
    state.dragging = true;
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (state.dragging) {
      drag(boundAt(event));
      return;
    }
    state.near = view && nearest(view, state.items, event);
    canvas.style.setProperty("cursor", state.near ? "pointer" : onRing(event) ? "grab" : "default");
    showTip(tip, box, view, state.near);
  });
  canvas.addEventListener("pointerup", () => (state.dragging = false));
  canvas.addEventListener("pointerleave", () => (tip.hidden = true));
  canvas.addEventListener("click", () => state.near && !state.dragging && pick(state.near.name));
  const resized = new ResizeObserver(draw);
  resized.observe(box);
  signal.addEventListener("abort", () => resized.disconnect());
  onThemeChange(draw, signal);
  const update = (changes) => {
    Object.assign(state, changes);
    draw();
  };
  return { box, update };
}

/** One scale for both axes, so that a circle is a circle. What is beyond the map is at its edge. */
function fit({ items, node }, width, height) {
  const { left, right, top, bottom, outside } = extent(items, node);
  const perMs = Math.min(
    (width - 2 * PADDING) / Math.max(right - left, 1),
    (height - 2 * PADDING) / Math.max(bottom - top, 1),
  );
  const x = (value) => clamp(width / 2 + (value - (left + right) / 2) * perMs, EDGE, width - EDGE);
  const y = (value) => clamp(height / 2 + (value - (top + bottom) / 2) * perMs, EDGE, height - EDGE);
  const reference = items.find((item) => item.name === node && item.x !== null && item.y !== null);
  const center = reference ? [x(reference.x), y(reference.y)] : null;
  return { width, height, perMs, x, y, center, outside: new Set(outside) };
}

function clamp(value, least, most) {
  return Math.min(most, Math.max(least, value));
}

function paintMap(canvas, view, { items, node, bound }) {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(view.width * ratio);
  canvas.height = Math.round(view.height * ratio);
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  if (view.center) paintRing(context, view, bound);
  const radius = items.length > 2000 ? 2.2 : items.length > 300 ? 3 : 5.5;
  // What passes is drawn last, above the rest.
  for (const item of [...items].sort((a, b) => a.passes - b.passes)) {
    if (item.x === null || item.y === null || item.name === node) continue;
    const at = [view.x(item.x), view.y(item.y)];
    if (view.outside.has(item)) paintOutside(context, view, at, item);
    else paintNode(context, ...at, radius, item);
  }
  if (view.center) paintReference(context, view, node);
  paintRuler(context, view);
  if (items.length <= NAMED) paintNodeNames(context, view, items, node);
}

function paintRing(context, { center, perMs }, bound) {
  context.beginPath();
  context.arc(...center, bound * perMs, 0, 2 * Math.PI);
  context.fillStyle = color("ring-fill");
  context.fill();
  context.setLineDash([6, 5]);
  context.strokeStyle = color("accent");
  context.lineWidth = 1.5;
  context.stroke();
  context.setLineDash([]);
}

/** Passes measured: filled. Passes by an estimate: an open circle. Beyond: a small grey dot. Unknown: a cross. */
function paintNode(context, x, y, radius, { passes, basis }) {
  context.beginPath();
  if (basis === "unknown") {
    const arm = radius * 0.9;
    context.moveTo(x - arm, y - arm);
    context.lineTo(x + arm, y + arm);
    context.moveTo(x - arm, y + arm);
    context.lineTo(x + arm, y - arm);
    context.strokeStyle = color("lost");
    context.lineWidth = 1.6;
    context.stroke();
    return;
  }
  const open = basis === "estimate";
  context.arc(x, y, passes ? radius : radius * 0.72, 0, 2 * Math.PI);
  context.strokeStyle = context.fillStyle = color(passes ? "pass" : "beyond");
  context.lineWidth = radius > 4 ? 1.8 : 1.2;
  if (open) context.stroke();
  else context.fill();
}

/** An arrowhead at the edge, which points to where the node would be. */
function paintOutside(context, { width, height, x, y }, [atX, atY], { x: nodeX, y: nodeY, passes }) {
  const side = (at, size) => (at <= EDGE ? -1 : at >= size - EDGE ? 1 : 0);
  context.save();
  context.translate(atX, atY);
  context.rotate(Math.atan2(side(y(nodeY), height), side(x(nodeX), width)));
  context.beginPath();
  context.moveTo(7, 0);
  context.lineTo(-5, -6);
  context.lineTo(-5, 6);
  context.closePath();
  context.fillStyle = color(passes ? "pass" : "lost");
  context.fill();
  context.restore();
}

function paintNodeNames(context, view, items, node) {
  const placed = items
    .filter((item) => item.x !== null && item.y !== null)
    .map((item) => boxAt(view.x(item.x) - DOT, view.y(item.y), 2 * DOT));
  context.font = "600 13px ui-sans-serif, Inter, system-ui, sans-serif";
  if (view.center) placed.push(boxAt(view.center[0] + 13, view.center[1] - 13, context.measureText(node).width));
  context.font = "11.5px ui-sans-serif, Inter, system-ui, sans-serif";
  context.fillStyle = color("muted");
  context.strokeStyle = color("raised");
  context.lineWidth = 3;
  context.textAlign = "left";
  context.textBaseline = "middle";
  for (const item of items) {
    if (item.x === null || item.y === null || item.name === node) continue;
    const box = freePlace(view, [view.x(item.x), view.y(item.y)], context.measureText(item.name).width, placed);
    if (!box) continue;
    placed.push(box);
    context.strokeText(item.name, box.left, box.middle);
    context.fillText(item.name, box.left, box.middle);
  }
  context.textBaseline = "alphabetic";
}

/** Right, left, above or below a node, where the name covers nothing; null: its neighbours leave it no place. */
function freePlace({ width, height }, [x, y], length, placed) {
  const places = [
    boxAt(x + 10, y, length),
    boxAt(x - 10 - length, y, length),
    boxAt(x - length / 2, y - 14, length),
    boxAt(x - length / 2, y + 14, length),
  ];
  const isFree = (box) =>
    box.left >= 0 &&
    box.left + length <= width &&
    box.middle >= LINE / 2 &&
    box.middle <= height - LINE / 2 &&
    !placed.some(
      (other) =>
        box.left < other.left + other.length &&
        other.left < box.left + length &&
        Math.abs(box.middle - other.middle) < LINE,
    );
  return places.find(isFree) ?? null;
}

/** A line of text on the map: from `left` on, `length` wide, LINE high around `middle`. */
function boxAt(left, middle, length) {
  return { left, middle, length };
}

function paintReference(context, { center: [x, y], width }, name) {
  context.beginPath();
  context.arc(x, y, 8, 0, 2 * Math.PI);
  context.fillStyle = color("surface");
  context.fill();
  context.lineWidth = 3;
  context.strokeStyle = color("accent");
  context.stroke();
  context.font = "600 13px ui-sans-serif, Inter, system-ui, sans-serif";
  context.fillStyle = color("ink");
  context.textAlign = "left";
  context.strokeStyle = color("surface");
  const left = Math.min(x + 13, width - context.measureText(name).width - 4);
  context.strokeText(name, left, y - 13);
  context.fillText(name, left, y - 13);
}

/** A length of the map in milliseconds, about a fifth of its width. */
function paintRuler(context, { width, height, perMs }) {
  const rough = width / 5 / perMs;
  const power = 10 ** Math.floor(Math.log10(rough));
  const length = [5, 2, 1].map((step) => step * power).find((step) => step <= rough) ?? power;
  const [x, y] = [16, height - 14];
  context.strokeStyle = context.fillStyle = color("muted");
  context.lineWidth = 1;
  context.beginPath();
  context.moveTo(x, y - 4);
  context.lineTo(x, y);
  context.lineTo(x + length * perMs, y);
  context.lineTo(x + length * perMs, y - 4);
  context.stroke();
  context.font = "12px ui-sans-serif, Inter, system-ui, sans-serif";
  context.textAlign = "left";
  context.fillText(`${Number(length.toPrecision(1))} ms`, x + 5, y - 5);
}

function nearest(view, items, event) {
  let best = null;
  let least = 12;
  for (const item of items) {
    if (item.x === null || item.y === null) continue;
    const away = Math.hypot(view.x(item.x) - event.offsetX, view.y(item.y) - event.offsetY);
    if (away < least) [best, least] = [item, away];
  }
  return best;
}

function showTip(tip, box, view, item) {
  tip.hidden = !item;
  if (!item) return;
  const lines = [item.rtt_ms === null ? "unknown" : `${ms(item.rtt_ms)}, ${item.basis}`, item.reason].filter(Boolean);
  tip.replaceChildren(
    element("div", { class: "tip-title" }, item.name),
    ...lines.map((line) => element("div", {}, line)),
  );
  const left = view.x(item.x) + 12;
  tip.style.setProperty(
    "left",
    `${left + tip.offsetWidth < box.clientWidth ? left : view.x(item.x) - tip.offsetWidth - 12}px`,
  );
  tip.style.setProperty("top", `${Math.max(0, view.y(item.y) - 10)}px`);
}
