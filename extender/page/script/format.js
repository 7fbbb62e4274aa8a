import { element } from "./dom.js";

/** 0.42 ms, 6.3 ms, 118 ms; a line never breaks between number and unit. */
export function ms(value) {
  return `${shortNumber(value)}\u00a0ms`;
}

/** Three digits, as many as a round trip is known by. */
export function shortNumber(value) {
  const size = Math.abs(value);
  const digits = size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2;
  return value.toFixed(digits);
}

export function signedMs(value) {
  return `${value < 0 ? "−" : "+"}${ms(Math.abs(value))}`;
}

export function count(value) {
  return value.toLocaleString("en-US");
}

export function percent(ratio) {
  const value = 100 * ratio;
  return `${value > 0 && value < 9.95 ? value.toFixed(1) : Math.round(value)} %`;
}

export function plural(number, noun) {
  return `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
}

/** 0.6 s, 41 s, 3 min, 5 h, 12 d. */
export function duration(seconds) {
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  return seconds < 172800 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86400)} d`;
}

/** 14:02 today, 21 Nov 14:02 before; the reader's own time zone. */
export function moment(iso, withSeconds = false) {
  const at = new Date(iso);
  const clock = at.toLocaleTimeString("en-GB", {
    hour: "2-digit",
    minute: "2-digit",
    ...(withSeconds && { second: "2-digit" }),
  });
  const today = at.toDateString() === new Date().toDateString();
  return today ? clock : `${at.toLocaleDateString("en-GB", { day: "numeric", month: "short" })} ${clock}`;
}

/** `format(value)`, or the word unknown where there is no value: unknown is never drawn as 0. */
export function orUnknown(value, format = String) {
  if (value === null || value === undefined) return element("span", { class: "unknown" }, "unknown");
  return format(value);
}
