import { element, shortNumber } from "./dom.js";

const KEY = "leadsman-theme";
const ORDER = ["auto", "light", "dark"];

/** auto follows the system. A browser that refuses storage forgets the choice, no more. */
export function chosenTheme() {
  try {
    return ORDER.includes(localStorage.getItem(KEY)) ? localStorage.getItem(KEY) : "auto";
  } catch {
    return "auto";
  }
}

export function applyTheme(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  document.dispatchEvent(new Event("themechange"));
}

export function nextTheme() {
  const theme = ORDER[(ORDER.indexOf(chosenTheme()) + 1) % ORDER.length];
  try {
    localStorage.setItem(KEY, theme);
  } catch {
    // Without storage the choice lasts until the page is closed.
  }
  applyTheme(theme);
  return theme;
}

/** A color of the style sheet as a canvas takes it: color("line"). The browser says which of light-dark() it is. */
export function color(name) {
  document.documentElement.style.setProperty("outline-color", `var(--${name})`);
  return getComputedStyle(document.documentElement).outlineColor;
}

/** `draw()` whenever colors change, until the signal ends it. */
export function onThemeChange(draw, signal) {
  document.addEventListener("themechange", draw, { signal });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw, { signal });
}

/**
 * Near is dark and cool, far is bright and warm, in both themes. Lightness only rises and blue turns to yellow, so that the order
 * reads with any of the three dichromacies (a test simulates them); the idea is cividis' (Nuñez et al., 2018,
 * doi:10.1371/journal.pone.0199239), with a warmer end.
 */
const NEAR_TO_FAR = [
  [22, 52, 88],
  [46, 84, 118],
  [84, 112, 128],
  [134, 138, 124],
  [188, 160, 100],
  [232, 184, 74],
  [255, 220, 92],
];

/** ratio: 0 near to 1 far. → [red, green, blue] */
export function depthColor(ratio) {
  const place = Math.min(1, Math.max(0, ratio)) * (NEAR_TO_FAR.length - 1);
  const below = Math.min(NEAR_TO_FAR.length - 2, Math.floor(place));
  const [near, far] = [NEAR_TO_FAR[below], NEAR_TO_FAR[below + 1]];
  return near.map((channel, i) => Math.round(channel + (far[i] - channel) * (place - below)));
}

export function css([red, green, blue], alpha = 1) {
  return `rgb(${red} ${green} ${blue} / ${alpha})`;
}

/** Black or white, whichever reads better on it: relative luminance of WCAG 2. */
export function inkOn(rgb) {
  const [red, green, blue] = rgb.map((channel) => {
    const part = channel / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.179 ? "#10191d" : "#ffffff";
}

/** Logarithmic, because 1 ms and 2 ms differ as 10 ms and 20 ms do. */
export class LogScale {
  constructor(values) {
    let low = Infinity;
    let high = -Infinity;
    for (const value of values) {
      if (value === null || value <= 0) continue;
      low = Math.min(low, value);
      high = Math.max(high, value);
    }
    this.low = Number.isFinite(low) ? Math.max(0.05, low) : 1;
    this.high = Math.max(this.low * 4, Number.isFinite(high) ? high : 100);
  }

  ratio(value) {
    return (Math.log(Math.max(value, this.low)) - Math.log(this.low)) / (Math.log(this.high) - Math.log(this.low));
  }

  value(ratio) {
    return Math.exp(Math.log(this.low) + ratio * (Math.log(this.high) - Math.log(this.low)));
  }

  color(value) {
    return depthColor(this.ratio(value));
  }

  /** 1, 2, 5, 10 … within the scale; of a short one more, of a long one the powers of ten. */
  ticks() {
    const ticks = this.multiples([1, 2, 5]);
    if (ticks.length < 3) return this.multiples([1, 1.5, 2, 3, 4, 5, 7]);
    return ticks.length > 9 ? this.multiples([1]) : ticks;
  }

  multiples(steps) {
    const powers = [-2, -1, 0, 1, 2, 3, 4, 5];
    return powers.flatMap((power) => steps.map((step) => step * 10 ** power)).filter((tick) => tick >= this.low && tick <= this.high);
  }
}

/** The scale as a bar with its ticks, what each mark means, and a note. marks: [[class, text]]. */
export function legend(scale, marks, signal, note) {
  const bar = element("canvas", {
    class: "legend-bar",
    width: "256",
    height: "1",
    role: "img",
    "aria-label": `Color scale, dark is near and bright is far, from ${shortNumber(scale.low)} to ${shortNumber(scale.high)} ms`,
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
      element("div", {}, "Round trip in ms, bright is far"),
      bar,
      element("div", { class: "legend-ticks" }, ticks),
    ),
    marks.map(([name, text]) =>
      element("span", { class: "legend-item" }, element("i", { class: `glyph ${name}` }), text),
    ),
    note,
  );
}
