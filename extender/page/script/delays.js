import { get } from "./api.js";
import { nodeInput, pagedList, table } from "./controls.js";
import { groupMap, MOST_CELLS, nodeMap } from "./delay_maps.js";
import { anchor, count, element, empty, inLocalTime, keepInAddress, link, moment, ms, orUnknown, panel, plural, signedMs } from "./dom.js";

/** The heatmap: cells to some 300 nodes, beyond that groups × groups with a zoom. Beside it what stands out, in words. */
export function delays(root, _parameters, signal) {
  const map = panel("Round trips", { class: "map-panel" });
  const side = element("div", { class: "side findings-first" });
  root.append(element("div", { class: "with-side" }, map, side));
  const ofPicture = renewed(signal);
  return async () => {
    const [groups, lost] = await Promise.all([
      get("/delays/groups", {}, signal),
      get("/delays/lost", { limit: MOST_NAMED }, signal),
    ]);
    const nodes = groups.groups.reduce((sum, group) => sum + group.nodes, 0);
    // Not the questions: what is being typed stays.
    if (side.firstChild) side.firstChild.replaceWith(standsOut(groups, lost));
    else side.append(standsOut(groups, lost), questions());
    if (!nodes) {
      map.replaceChildren(
        map.firstChild,
        empty(
          "No node has reported yet.",
          element(
            "p",
            { class: "quiet" },
            "Agents report within seconds of their start. `kubectl get pods -A -l app.kubernetes.io/component=agent -o wide` shows whether they run.",
          ),
        ),
      );
      return;
    }
    const few = nodes <= MOST_CELLS;
    const next = few ? await nodeMap({ nodes }, ofPicture()) : groupMap(groups, ofPicture());
    map.querySelector("h2").textContent = few
      ? `Round trips, ${plural(nodes, "node")}`
      : `Round trips, ${count(nodes)} nodes in ${plural(groups.groups.length, "group")}`;
    map.replaceChildren(map.firstChild, next.body);
    next.draw();
  };
}

/** What a picture listens to ends with the view, and with the next picture. */
function renewed(signal) {
  let last = new AbortController();
  signal.addEventListener("abort", () => last.abort());
  return () => {
    last.abort();
    last = new AbortController();
    return last.signal;
  };
}

/** One block of groups, node by node: #/delays/tile/<row group>/<column group>. */
export function delaysTile(root, { row, column }, signal) {
  const back = element(
    "div",
    { class: "crumbs" },
    anchor(["delays"], "All groups"),
    element("span", {}, "›"),
    element("b", {}, ""),
  );
  const map = panel("Round trips", { class: "map-panel" });
  root.append(back, map);
  const ofPicture = renewed(signal);
  return async () => {
    const { groups } = await get("/delays/groups", {}, signal);
    const [i, j] = [row, column].map((id) => groups.findIndex((each) => String(each.id) === id));
    if (i < 0 || j < 0) {
      map.replaceChildren(
        map.firstChild,
        empty("There is no such group any more: groups are made again as delays change."),
      );
      return;
    }
    const offset = (index) => groups.slice(0, index).reduce((sum, group) => sum + group.nodes, 0);
    const area = { rowOffset: offset(i), columnOffset: offset(j), rows: groups[i].nodes, columns: groups[j].nodes };
    const next = await nodeMap(area, ofPicture());
    const title = i === j ? `Within ${groups[i].label}` : `${groups[i].label} to ${groups[j].label}`;
    back.lastChild.textContent = title;
    map.querySelector("h2").textContent = `${title}: ${count(groups[i].nodes)} × ${plural(groups[j].nodes, "node")}`;
    map.replaceChildren(map.firstChild, next.body);
    next.draw();
  };
}

/** Slow nodes, lost links and far pairs, so many of each in words; a list has the rest. */
const MOST_NAMED = 5;

function standsOut({ slow_nodes: slow, outliers }, lost) {
  if (!slow.length && !lost.total && !outliers.length)
    return panel("What stands out", {}, empty("Nothing: every link answers, and every node and pair is where its group expects it."));
  const slowNodes = slow.slice(0, MOST_NAMED).map((node) =>
    finding(
      link(["nodes", node.node]),
      inLocalTime(node.text),
      node.since ? "compared with the beginning of the last hour" : "for longer than the history",
    ),
  );
  const links = lost.items.map((item) => finding(link(["delays", item.source, item.target]), lostText(item), wayBack(item)));
  const pairs = outliers
    .slice(0, MOST_NAMED)
    .map((pair) =>
      element(
        "li",
        { class: "outlier" },
        element("a", { href: link(["delays", pair.source, pair.target]) }, `${pair.source} → ${pair.target}`),
        element("span", { class: "number" }, ms(pair.rtt_ms)),
        element("span", { class: "quiet" }, `expected ${ms(pair.expected_ms)}`),
      ),
    );
  return panel(
    "What stands out",
    {},
    findings("Slow nodes", slowNodes, slow.length),
    findings("Lost links", links, lost.total, link(["delays", "lost"])),
    pairs.length ? element("h3", {}, "Pairs far above what is expected") : null,
    pairs.length ? element("ul", { class: "outliers" }, pairs) : null,
    outliers.length > pairs.length
      ? element("p", { class: "quiet" }, `The farthest ${pairs.length} of ${count(outliers.length)}.`)
      : null,
  );
}

function finding(href, text, note) {
  return element(
    "li",
    { class: "finding" },
    element("a", { href, class: "finding-text" }, text),
    element("span", { class: "quiet" }, note),
  );
}

function findings(title, items, total, all) {
  if (!items.length) return null;
  const more = total > items.length ? `All ${count(total)} ${title.toLowerCase()}` : null;
  return [
    element("h3", {}, title),
    element("ul", { class: "findings" }, items),
    more && all ? element("p", {}, element("a", { href: all }, more)) : null,
  ];
}

function lostText({ source, target, sent }) {
  return `${source} → ${target}: no reply, 0 of ${sent}`;
}

function wayBack({ is_back_lost: isLost, back_rtt_ms: back }) {
  if (isLost) return "no reply the other way either";
  return back === null ? "the other way is not probed" : `the other way answers in ${ms(back)}`;
}

const LINK_SORTS = [
  ["", "both directions lost first"],
  ["source", "by the node that probes"],
  ["target", "by the node that is silent"],
];

/** Every link without a reply, searched and sorted: #/delays/lost?sort=target&search=…. */
export function lostLinks(root, _parameters, signal, query) {
  const asked = { search: query.search ?? "", sort: query.sort ?? "" };
  const list = pagedList(
    (cursor) => get("/delays/lost", { ...asked, cursor }, signal),
    (items) => lostTable(items, asked.search),
  );
  const ask = (changes) => {
    Object.assign(asked, changes);
    keepInAddress(asked);
    list.restart();
  };
  const search = element("input", {
    type: "search",
    value: asked.search,
    placeholder: "name of a node",
    "aria-label": "Search lost links",
    class: "search",
    on: { input: () => ask({ search: search.value }) },
  });
  const sort = element(
    "select",
    { "aria-label": "Order", on: { change: () => ask({ sort: sort.value }) } },
    LINK_SORTS.map(([value, text]) => element("option", { value, selected: value === asked.sort }, text)),
  );
  root.append(
    element("div", { class: "crumbs" }, anchor(["delays"], "Delays"), element("span", {}, "›"), element("b", {}, "Lost links")),
    panel(
      "Lost links",
      {},
      element(
        "p",
        { class: "quiet" },
        "Both nodes report, and every probe from the first to the second was lost. Look at the network between them: a firewall, a route, a cable.",
      ),
      element("div", { class: "controls" }, search, sort),
      list.body,
    ),
  );
  return list.refresh;
}

function lostTable(items, search) {
  const columns = [
    {
      title: "Link",
      cell: (item) => element("a", { href: link(["delays", item.source, item.target]), class: "bad strong" }, `${item.source} → ${item.target}`),
    },
    { title: "Replies", cell: (item) => element("span", { class: "bad unbroken" }, `no reply, 0 of ${item.sent}`) },
    { title: "The other way", cell: wayBack },
  ];
  return table("Lost links", columns, items, {
    stacks: true,
    whenEmpty: search ? `No lost link has “${search}” in a node's name.` : "Every link that is probed answers.",
  });
}

function questions() {
  const ends = ["", ""];
  const open = (end) => (name) => {
    ends[end] = name;
    if (ends[0] && ends[1]) location.hash = link(["delays", ...ends]);
  };
  return panel(
    "Ask",
    {},
    element(
      "div",
      { class: "ask" },
      element("span", {}, "One pair"),
      nodeInput("from node", "", open(0)),
      nodeInput("to node", "", open(1)),
    ),
    element("p", { class: "ask-links" }, anchor(["delays", "change"], "What changed between two moments?")),
    element("p", { class: "ask-links" }, anchor(["within"], "Who is within a bound of a node?")),
  );
}

const PRESETS = [
  ["15 min", 15],
  ["1 h", 60],
  ["6 h", 360],
  ["24 h", 1440],
  ["48 h", 2880],
];

/** Two moments compared, the nodes that changed most first: #/delays/change?from=…&to=…. */
export function change(root, _parameters, signal, query) {
  const period = { from: query.from ?? ago(60), to: query.to ?? "" };
  const inputs = { from: momentInput("From", period.from), to: momentInput("To (empty: now)", period.to) };
  const items = pagedList(
    (cursor) => get("/delays/change", { from: period.from, to: period.to || ago(0), cursor }, signal),
    (rows, { from, to }) =>
      element("div", {}, element("p", { class: "quiet origin" }, `${moment(from)} against ${moment(to)}`), changeTable(rows)),
  );
  const show = () => {
    keepInAddress(period);
    return items.restart();
  };
  for (const end of ["from", "to"]) {
    inputs[end].querySelector("input").addEventListener("change", (event) => {
      period[end] = event.target.value ? toIso(new Date(event.target.value)) : "";
      if (period.from) show();
    });
  }
  const presets = PRESETS.map(([label, minutes]) =>
    element("button", { type: "button", on: { click: () => choose(minutes) } }, label),
  );
  const choose = (minutes) => {
    Object.assign(period, { from: ago(minutes), to: "" });
    inputs.from.querySelector("input").value = toLocal(period.from);
    inputs.to.querySelector("input").value = "";
    show();
  };
  root.append(
    element(
      "div",
      { class: "crumbs" },
      anchor(["delays"], "Delays"),
      element("span", {}, "›"),
      element("b", {}, "Two moments compared"),
    ),
    panel(
      "What changed",
      {},
      element("div", { class: "controls" }, inputs.from, inputs.to, element("div", { class: "presets" }, presets)),
      items.body,
    ),
  );
  return items.refresh;
}

const LEAST_MOVED_MS = 1;

/** A node's own move, by its pairs: where a peer moves, a node's median shifts too, and says nothing of the node. */
function changeTable(rows) {
  const largest = Math.max(1, ...rows.map((row) => Math.abs(row.change_ms ?? 0)));
  const moved = ({ change_ms: change }) =>
    change === null ? orUnknown(null) : Math.abs(change) < LEAST_MOVED_MS ? element("span", { class: "quiet" }, "did not move") : signedMs(change);
  const columns = [
    { title: "Node", cell: (row) => anchor(["nodes", row.node], row.node) },
    { title: "Moved by", number: true, cell: moved },
    { title: "nearer | farther", class: "wide-only bar-column centered", cell: (row) => (Math.abs(row.change_ms ?? 0) < LEAST_MOVED_MS ? "" : changeBar(row.change_ms, largest)) },
    { title: "Median before", number: true, class: "wide-only", cell: (row) => ms(row.before_ms) },
    { title: "Median after", number: true, class: "wide-only", cell: (row) => ms(row.after_ms) },
  ];
  return table("By how much each node moved", columns, rows, {
    whenEmpty: "No node was measured at both moments. Choose moments within the history, which the foot of the page names.",
  });
}

function changeBar(value, largest) {
  const share = (50 * Math.abs(value)) / largest;
  const style = { left: `${value < 0 ? 50 - share : 50}%`, width: `${share}%` };
  return element(
    "span",
    { class: "change-bar", "aria-hidden": "true" },
    element("i", { class: value < 0 ? "nearer" : "farther", style }),
  );
}

function momentInput(label, iso) {
  return element(
    "label",
    { class: "field" },
    element("span", {}, label),
    element("input", { type: "datetime-local", value: iso ? toLocal(iso) : "" }),
  );
}

function ago(minutes) {
  return toIso(new Date(Date.now() - 60000 * minutes));
}

function toIso(date) {
  return `${date.toISOString().slice(0, 19)}Z`;
}

/** What an input of the type datetime-local takes: the reader's own time zone. */
function toLocal(iso) {
  const date = new Date(iso);
  return new Date(date - 60000 * date.getTimezoneOffset()).toISOString().slice(0, 16);
}
