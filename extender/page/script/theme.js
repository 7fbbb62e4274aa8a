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

export function isDark() {
  const theme = document.documentElement.dataset.theme;
  return theme ? theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
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
