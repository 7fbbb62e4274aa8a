import { get } from "./api.js";
import { element, panel } from "./dom.js";
import { pagedList, table } from "./table.js";

/** The policies in use or refused, with their hashes: #/policies. */
export function policies(root, _parameters, signal) {
  const columns = [
    { title: "Policy", cell: (policy) => element("span", { class: "strong" }, policy.name) },
    { title: "Kind", cell: (policy) => policy.kind },
    { title: "State", cell: state },
    { title: "Hash", cell: (policy) => (policy.hash ? element("code", {}, policy.hash) : "") },
    { title: "From", class: "wide-only quiet", cell: (policy) => policy.source },
  ];
  const list = pagedList(
    (cursor) => get("/policies", { cursor }, signal),
    (items) =>
      table("Policies", columns, items, { whenEmpty: "No policy: the built-in defaults decide.", stacks: true }),
  );
  root.append(panel("Policies", {}, list.body));
  return list.refresh;
}

function state({ accepted, problems }) {
  const verdict = accepted
    ? element("span", { class: "status fresh" }, "accepted")
    : element("span", { class: "status stale" }, "refused");
  return [verdict, problems.map((problem) => element("div", { class: "bad" }, problem))];
}
