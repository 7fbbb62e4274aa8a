/**
 * Follows the server's events: `changed(sections)` at most every two seconds, `connected(true | false)` at each change.
 * The browser reconnects by itself; what changed meanwhile is asked for then.
 */
export function follow(changed, connected) {
  const pending = new Set();
  let timer = null;
  let lost = false;
  const stream = new EventSource("/api/v1/events");
  const flush = () => {
    timer = null;
    if (document.hidden || !pending.size) return;
    const sections = [...pending];
    pending.clear();
    changed(sections);
  };
  const add = (sections) => {
    sections.forEach((section) => pending.add(section));
    timer ??= setTimeout(flush, 2000);
  };
  stream.addEventListener("change", (event) => add(JSON.parse(event.data).sections));
  stream.addEventListener("open", () => {
    connected(true);
    if (lost) add(["all"]);
    lost = false;
  });
  stream.addEventListener("error", () => {
    lost = true;
    connected(false);
  });
  document.addEventListener("visibilitychange", flush);
}
