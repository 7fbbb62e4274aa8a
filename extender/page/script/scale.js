import { isDark } from "./theme.js";

/**
 * cmocean's "deep", a chart's colors of depth (Thyng et al., 2016, doi:10.5670/oceanog.2016.66). Its lightness only falls, so it
 * reads without seeing hues. On a dark page it runs the other way: what is far stands out from the page on both.
 */
const DEEP = [
  [253, 254, 204],
  [165, 223, 167],
  [93, 186, 164],
  [72, 142, 158],
  [62, 100, 149],
  [63, 57, 108],
  [40, 26, 44],
];

/** ratio: 0 near to 1 far. → [red, green, blue] */
export function depthColor(ratio) {
  const place = Math.min(1, Math.max(0, isDark() ? 1 - ratio : ratio)) * (DEEP.length - 1);
  const below = Math.min(DEEP.length - 2, Math.floor(place));
  return DEEP[below].map((channel, i) => Math.round(channel + (DEEP[below + 1][i] - channel) * (place - below)));
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
