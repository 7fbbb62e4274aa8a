/**
 * Follows the server's events: `changed(sections)` at most every two seconds, `connected(true | false)` at each change.
 * The browser reconnects by itself; what changed meanwhile is asked for then.
 *
 * A page that nobody sees closes its stream. Browsers open six connections to a host, and hidden tabs and pages that wait behind
 * "Back" share them: six streams would leave none for a request.
 */
export function follow(changed, connected) {
  const pending = new Set();
  let timer = null;
  let retry = null;
  let stream = null;
  let missed = false;
  const flush = () => {
    timer = null;
    const sections = [...pending];
    pending.clear();
    changed(sections);
  };
  const add = (sections) => {
    sections.forEach((section) => pending.add(section));
    timer ??= setTimeout(flush, 2000);
  };
  const open = () => {
    stream = new EventSource("/api/v1/events");
    stream.addEventListener("change", (event) => add(JSON.parse(event.data).sections));
    stream.addEventListener("open", () => {
      connected(true);
      if (missed) add(["all"]);
      missed = false;
    });
    stream.addEventListener("error", () => {
      missed = true;
      connected(false);
      // What was refused, as while the API server does not say whose a token is, no browser asks for again by itself.
      if (stream.readyState === EventSource.CLOSED) retry = setTimeout(open, 30000);
    });
  };
  const close = () => {
    clearTimeout(timer);
    clearTimeout(retry);
    timer = null;
    stream?.close();
    missed = true;
  };
  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  if (document.hidden) missed = true;
  else open();
}
