import { get } from "./api.js";
import { anchor, element, panel } from "./dom.js";
import { moment, ms, orUnknown, signedMs } from "./format.js";
import { keepInAddress } from "./router.js";
import { pagedList, table } from "./table.js";

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

function changeTable(rows) {
  const largest = Math.max(1, ...rows.map((row) => Math.abs(row.change_ms ?? 0)));
  const columns = [
    { title: "Node", cell: (row) => anchor(["nodes", row.node], row.node) },
    { title: "Before", number: true, cell: (row) => orUnknown(row.before_ms, ms) },
    { title: "After", number: true, cell: (row) => orUnknown(row.after_ms, ms) },
    { title: "Change", number: true, cell: (row) => orUnknown(row.change_ms, signedMs) },
    { title: "nearer | farther", class: "wide-only bar-column centered", cell: (row) => changeBar(row.change_ms ?? 0, largest) },
  ];
  return table("Changes of nodes' median round trips", columns, rows, {
    whenEmpty: "No node has a value at both moments. Choose moments within the history.",
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
