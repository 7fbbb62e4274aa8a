import { get } from "./api.js";
import { element, empty, panel } from "./dom.js";
import { count, moment } from "./format.js";
import { table } from "./table.js";

/** What the leading controller does, and what it holds back: #/plan. */
export function plan(root, _parameters, signal) {
  const body = element("div", { class: "stack" });
  root.append(body);
  return async () => {
    const answer = await get("/plan", {}, signal);
    body.replaceChildren(...(answer.unknown ? [unknownPlan(answer)] : knownPlan(answer)));
  };
}

/** Unknown is not empty: no table says that there is nothing to do. */
function unknownPlan({ unknown, partial }) {
  return panel(
    "The plan is unknown",
    {},
    empty(
      `${unknown[0].toUpperCase()}${unknown.slice(1)}.`,
      partial.length ? silentList(partial) : null,
      element("p", { class: "quiet" }, "Its Events, and `/plan` on port 9003 of the controller that leads, say it too."),
    ),
  );
}

function knownPlan({ leader, at, is_dry_run: isDryRun, actions, withheld, stopped, unplanned, left_out: leftOut, partial }) {
  const common = [
    { title: "Action", cell: (action) => element("span", { class: "strong" }, action.kind) },
    { title: "Object", cell: (action) => action.object },
    { title: "Reason", cell: (action) => action.reason },
  ];
  const why = { title: "Held back because", cell: (action) => action.why };
  const since = { title: "Since", class: "unbroken", cell: (action) => moment(action.since, true) };
  const led = ["led by ", element("b", {}, leader), `, as of ${moment(at, true)}`];
  const more = leftOut ? element("p", { class: "quiet" }, `${count(leftOut)} more are not listed.`) : null;
  return [
    panel(
      isDryRun ? "Would be done (dry run)" : "Done now",
      { aside: element("span", {}, led) },
      table("Actions", common, actions, {
        whenEmpty: "The plan is empty: there is nothing to do.",
        stacks: true,
      }),
    ),
    panel(
      "Held back",
      {},
      table("Withheld actions", [...common, why, since], withheld, {
        whenEmpty: "Nothing is held back.",
        stacks: true,
      }),
      more,
    ),
    stopped.length ? panel("Policies that change nothing", {}, textList(stopped)) : null,
    unplanned.length ? panel("Not planned yet", {}, textList(unplanned)) : null,
    partial.length ? panel("Other controllers that do not answer", {}, silentList(partial)) : null,
  ].filter(Boolean);
}

function textList(texts) {
  return element(
    "ul",
    { class: "lines" },
    texts.map((text) => element("li", {}, text)),
  );
}

function silentList(partial) {
  return textList(partial.map(({ replica, error }) => `${replica}: ${error}`));
}
