import { get } from "./api.js";
import { element, panel } from "./dom.js";
import { moment, orUnknown } from "./format.js";
import { table } from "./table.js";

/** What the controller would do next, and what it holds back: #/plan. */
export function plan(root, _parameters, signal) {
  const body = element("div", { class: "stack" });
  root.append(body);
  return async () => {
    const { leader, actions, withheld } = await get("/plan", {}, signal);
    const common = [
      { title: "Action", cell: (action) => element("span", { class: "strong" }, action.kind) },
      { title: "Object", cell: (action) => action.object },
      { title: "Reason", cell: (action) => action.reason },
    ];
    const since = { title: "Since", cell: (action) => orUnknown(action.since, moment) };
    const unknown = "Not known here: this extender does not follow the controller. Its Events and `leadsman plan status` say it.";
    const led = leader ? ["led by ", element("b", {}, leader)] : "which controller leads is not known here";
    body.replaceChildren(
      panel(
        "Next",
        { aside: element("span", {}, led) },
        table("Actions", common, actions, { whenEmpty: leader ? "Nothing to do." : unknown }),
      ),
      panel(
        "Withheld",
        {},
        table("Withheld actions", [...common, since], withheld, { whenEmpty: leader ? "Nothing is held back." : unknown }),
      ),
    );
  };
}
