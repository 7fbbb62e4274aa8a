import { element } from "./dom.js";
import { shortNumber } from "./format.js";
import { css } from "./scale.js";
import { onThemeChange } from "./theme.js";

/** The scale as a bar with its ticks, what each mark means, and a note. marks: [[class, text]]. */
export function legend(scale, marks, signal, note) {
  const bar = element("canvas", {
    class: "legend-bar",
    width: "256",
    height: "1",
    role: "img",
    "aria-label": `Color scale from ${shortNumber(scale.low)} to ${shortNumber(scale.high)} ms`,
  });
  const draw = () => {
    const context = bar.getContext("2d");
    for (let x = 0; x < 256; x += 1) {
      context.fillStyle = css(scale.color(scale.value(x / 255)));
      context.fillRect(x, 0, 1, 1);
    }
  };
  draw();
  onThemeChange(draw, signal);
  const ticks = scale
    .ticks()
    .map((tick) =>
      element("span", { style: { left: `${100 * scale.ratio(tick)}%` } }, String(Number(tick.toPrecision(2)))),
    );
  return element(
    "div",
    { class: "legend" },
    element(
      "div",
      { class: "legend-scale" },
      element("div", {}, "Round trip in ms"),
      bar,
      element("div", { class: "legend-ticks" }, ticks),
    ),
    marks.map(([name, text]) =>
      element("span", { class: "legend-item" }, element("i", { class: `glyph ${name}` }), text),
    ),
    note,
  );
}
