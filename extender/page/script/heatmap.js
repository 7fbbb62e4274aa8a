import { color, css, inkOn, onThemeChange } from "./colors.js";
import { element, shortNumber } from "./dom.js";

const FONT = "ui-sans-serif, Inter, system-ui, sans-serif";
const LARGEST = 860;
/** From this width on the legend stands beside the picture and takes so much; views.css lays it out. */
const BESIDE = 720;
const LEGEND = 264;

/**
 * A matrix on a canvas, walked by mouse, touch and arrow keys.
 *
 * rows, columns: names. rowGroups, columnGroups: a group's name for each, lines are drawn where it changes.
 * cell(i, j): {kind: "measured" | "estimate" | "lost" | "self" | "unknown", value, marks: {asymmetric, outlier, lost}}.
 * describe(i, j): the cell in words. open(i, j): what a click or Enter does.
 */
export function heatmap({ label, rows, columns, rowGroups, columnGroups, scale, cell, describe, open }, signal) {
  const canvas = element("canvas", {
    tabindex: "0",
    role: "application",
    "aria-label": `${label}. Arrow keys move, Enter opens.`,
  });
  const tip = element("div", { class: "tip", hidden: true });
  const spoken = element("p", { class: "hidden-text", "aria-live": "polite" });
  const box = element("div", { class: "heatmap" }, canvas, tip, spoken);
  let geometry = null;
  let at = null;

  const draw = () => {
    if (!box.isConnected || !box.parentElement.clientWidth) return;
    geometry = layout(box.parentElement, rows, columns, canvas);
    paint(canvas, geometry, { rows, columns, rowGroups, columnGroups, scale, cell, at });
  };
  const select = (place, { speak = false } = {}) => {
    if (at?.[0] === place?.[0] && at?.[1] === place?.[1]) return;
    at = place;
    draw();
    tip.hidden = !place;
    if (!place) return;
    const words = describe(...place);
    tip.replaceChildren(...words.map((line, i) => element("div", { class: i ? "" : "tip-title" }, line)));
    if (speak) spoken.textContent = words.join(", ");
    const { x0, y0, size } = geometry;
    const left = x0 + (place[1] + 1) * size + 8;
    const fits = left + tip.offsetWidth < box.parentElement.clientWidth;
    tip.style.setProperty("left", `${fits ? left : Math.max(0, x0 + place[1] * size - tip.offsetWidth - 8)}px`);
    tip.style.setProperty("top", `${Math.max(0, y0 + place[0] * size - 4)}px`);
  };
  const placeOf = (event) => {
    const { x0, y0, size } = geometry;
    const j = Math.floor((event.offsetX - x0) / size);
    const i = Math.floor((event.offsetY - y0) / size);
    return i >= 0 && j >= 0 && i < rows.length && j < columns.length ? [i, j] : null;
  };
  canvas.addEventListener("pointermove", (event) => geometry && select(placeOf(event)));
  canvas.addEventListener("pointerleave", () => select(null));
  canvas.addEventListener("blur", () => select(null));
  canvas.addEventListener("click", (event) => placeOf(event) && open(...placeOf(event)));
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (event.key === "Enter" && at) open(...at);
    if (!step) return;
    event.preventDefault();
    const clamp = (value, length) => Math.min(length - 1, Math.max(0, value));
    const from = at ?? [-step[0], -step[1]].map((value) => Math.max(0, value));
    select([clamp(from[0] + step[0], rows.length), clamp(from[1] + step[1], columns.length)], { speak: true });
  });
  const resized = new ResizeObserver(draw);
  requestAnimationFrame(() => box.parentElement && resized.observe(box.parentElement));
  signal.addEventListener("abort", () => resized.disconnect());
  onThemeChange(draw, signal);
  return { box, draw };
}

/** Where cells lie, in CSS pixels: the first at (x0, y0), each `size` wide and high. Names have a margin where they are legible. */
function layout(body, rows, columns, canvas) {
  const width = body.clientWidth > BESIDE ? body.clientWidth - LEGEND : body.clientWidth;
  // As much as is seen without scrolling, but legible.
  const tallest = Math.max(440, window.innerHeight - (body.getBoundingClientRect().top + window.scrollY) - 24);
  const context = canvas.getContext("2d");
  context.font = `600 12.5px ${FONT}`;
  const longest = Math.max(...[...rows, ...columns].slice(0, 400).map((name) => context.measureText(name).width));
  const margin = Math.min(longest + 14, Math.max(64, width * 0.24), 150);
  const named = Math.min(LARGEST, width - margin) / columns.length >= 12 && (tallest - margin) / rows.length >= 12;
  const edge = named ? margin : 0;
  const size = Math.min((Math.min(LARGEST, width) - edge) / columns.length, (tallest - edge) / rows.length, 84);
  return {
    x0: edge,
    y0: edge,
    size,
    named,
    width: edge + size * columns.length,
    height: edge + size * rows.length,
    margin,
  };
}

function paint(
  canvas,
  { x0, y0, size, named, width, height, margin },
  { rows, columns, rowGroups, columnGroups, scale, cell, at },
) {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.setProperty("width", `${width}px`);
  canvas.style.setProperty("height", `${height}px`);
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  const colors = {
    ink: color("ink"),
    muted: color("muted"),
    line: color("line"),
    void: color("void"),
    faint: color("beyond"),
    lost: color("lost"),
    lostSoft: color("bad-soft"),
    page: color("surface"),
  };
  const gap = size > 12 ? 1 : size > 5 ? 0.5 : 0;
  rows.forEach((_, i) =>
    columns.forEach((__, j) => paintCell(context, x0 + j * size, y0 + i * size, size, gap, cell(i, j), scale, colors)),
  );
  paintGroups(context, x0, y0, size, rowGroups, columnGroups, colors.page);
  if (named) paintNames(context, { x0, y0, size, margin }, rows, columns, at, colors);
  if (at) {
    context.strokeStyle = colors.ink;
    context.lineWidth = 2;
    context.strokeRect(x0 + at[1] * size - 0.5, y0 + at[0] * size - 0.5, size + 1, size + 1);
  }
}

/** Measured fills its cell, an estimate is smaller and paler, lost is crossed out, unknown is a hatch. */
function paintCell(context, x, y, size, gap, { kind, value, marks = {} }, scale, colors) {
  const inner = size - gap;
  context.fillStyle = kind === "lost" ? colors.lostSoft : colors.void;
  context.fillRect(x, y, inner, inner);
  const rgb = value === null || kind === "self" ? null : scale.color(value);
  if (rgb) {
    const inset = kind === "estimate" && size >= 7 ? Math.min(5, Math.max(1, size * 0.16)) : 0;
    context.fillStyle = css(rgb, kind === "estimate" ? (inset ? 0.72 : 0.5) : 1);
    context.beginPath();
    context.roundRect(x + inset, y + inset, inner - 2 * inset, inner - 2 * inset, inset ? size * 0.12 : 0);
    context.fill();
  }
  if (kind === "unknown" && size >= 7)
    stroke(context, colors.faint, 1.2, [[x + inner * 0.3, y + inner * 0.7, x + inner * 0.7, y + inner * 0.3]]);
  if (kind === "lost") cross(context, x, y, inner, colors.lost);
  if (rgb && size >= 34) paintNumber(context, x, y, inner, kind, value, rgb, colors, marks);
  if (marks.asymmetric && size >= 9)
    triangle(context, x + inner, y, Math.min(9, size * 0.34), kind === "estimate" ? colors.ink : inkOn(rgb));
  if (marks.lost && size >= 9) {
    const part = size >= 34 ? Math.min(inner * 0.26, 12) : inner * 0.45; // Below the number where there is one.
    context.fillStyle = colors.page;
    context.fillRect(x + inner - part, y + inner - part, part, part);
    cross(context, x + inner - part, y + inner - part, part, colors.lost);
  }
  if (marks.outlier) {
    // Beside the number where there is one.
    const place = size >= 34 ? 11 : inner / 2;
    ring(context, x + place, y + place, Math.max(2.5, Math.min(6, size * 0.26)), colors);
  }
}

function paintNumber(context, x, y, inner, kind, value, rgb, colors, marks) {
  const faint = kind === "estimate";
  context.fillStyle = faint
    ? inkOn(rgb.map((channel, i) => channel * 0.72 + 0.28 * hexChannels(colors.void)[i]))
    : inkOn(rgb);
  context.font = `${faint ? "italic " : "500 "}${Math.min(15, Math.max(10, inner * 0.28))}px ${FONT}`;
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.fillText(shortNumber(value), x + inner / 2, y + inner / 2 + (marks.lost ? -inner * 0.08 : 0.5));
}

function hexChannels(hex) {
  return [1, 3, 5].map((start) => parseInt(hex.slice(start, start + 2), 16));
}

function paintGroups(context, x0, y0, size, rowGroups, columnGroups, line) {
  if (!rowGroups || size < 2) return;
  const width = size > 12 ? 4 : 2;
  context.fillStyle = line;
  const edges = (groups) => groups.flatMap((group, i) => (i && group !== groups[i - 1] ? [i] : []));
  for (const i of edges(rowGroups))
    context.fillRect(x0, y0 + i * size - width / 2 - 0.5, size * columnGroups.length, width);
  for (const j of edges(columnGroups))
    context.fillRect(x0 + j * size - width / 2 - 0.5, y0, width, size * rowGroups.length);
}

function paintNames(context, { x0, y0, size, margin }, rows, columns, at, colors) {
  const pixels = Math.min(12.5, size - 1);
  const name = (text, chosen) => {
    context.font = `${chosen ? "600 " : ""}${pixels}px ${FONT}`;
    context.fillStyle = chosen ? colors.ink : colors.muted;
    return shortened(context, text, margin - 10);
  };
  context.textBaseline = "middle";
  context.textAlign = "right";
  rows.forEach((row, i) => context.fillText(name(row, at?.[0] === i), x0 - 7, y0 + (i + 0.5) * size));
  context.textAlign = "left";
  columns.forEach((column, j) => {
    context.save();
    context.translate(x0 + (j + 0.5) * size, y0 - 7);
    context.rotate(-Math.PI / 2);
    context.fillText(name(column, at?.[1] === j), 0, 0);
    context.restore();
  });
}

/** The end of a name tells nodes apart, so the middle goes. */
function shortened(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  for (let kept = text.length - 1; kept > 4; kept -= 1) {
    const half = Math.floor(kept / 2);
    const shorter = `${text.slice(0, kept - half)}…${text.slice(-half)}`;
    if (context.measureText(shorter).width <= width) return shorter;
  }
  return text.slice(-5);
}

function stroke(context, style, width, lines) {
  context.strokeStyle = style;
  context.lineWidth = width;
  context.beginPath();
  for (const [x1, y1, x2, y2] of lines) {
    context.moveTo(x1, y1);
    context.lineTo(x2, y2);
  }
  context.stroke();
}

function cross(context, x, y, size, style) {
  const low = size * 0.22;
  const high = size * 0.78;
  const lines = [
    [x + low, y + low, x + high, y + high],
    [x + low, y + high, x + high, y + low],
  ];
  stroke(context, style, size > 14 ? 2 : 1.2, lines);
}

function triangle(context, right, top, side, style) {
  context.fillStyle = style;
  context.beginPath();
  context.moveTo(right, top);
  context.lineTo(right - side, top);
  context.lineTo(right, top + side);
  context.fill();
}

function ring(context, x, y, radius, colors) {
  context.beginPath();
  context.arc(x, y, radius, 0, 2 * Math.PI);
  context.strokeStyle = colors.page;
  context.lineWidth = 4;
  context.stroke();
  context.strokeStyle = colors.lost;
  context.lineWidth = 2;
  context.stroke();
}
