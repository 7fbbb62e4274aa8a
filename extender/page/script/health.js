import { get } from "./api.js";
import { pagedList, table } from "./controls.js";
import { count, element, inLocalTime, moment, ms, orUnknown, panel } from "./dom.js";

const SOON_DAYS = 14;

/** Checks, what to do about those that fail, what this replica decided, policies and certificates: #/health. */
export function health(root, _parameters, signal) {
  const body = element("div", { class: "stack" });
  root.append(body);
  const listed = policies(signal);
  return async () => {
    const [{ checks }, overview] = await Promise.all([
      get("/health", {}, signal),
      get("/overview", {}, signal),
      listed.refresh(),
    ]);
    const failing = checks.filter((check) => !check.ok);
    const title = failing.length
      ? `${failing.length} of ${checks.length} checks fail`
      : `All ${checks.length} checks pass`;
    body.replaceChildren(
      panel(title, {}, element("ul", { class: "checks" }, checks.map(checkLine))),
      decided(overview),
      panel("Policies", {}, listed.body),
      certificates(overview),
    );
  };
}

function decided({ decisions, pairs, replica }) {
  const times = decisions.p99_ms === null ? "none" : `${ms(decisions.p50_ms)} in the middle, ${ms(decisions.p99_ms)} at most in 99 of 100`;
  const [first] = Object.entries(decisions.refused_by_reason);
  const since = decisions.kept_since ? ` since ${moment(decisions.kept_since)}` : "";
  const facts = [
    ["Decisions in a minute", count(Math.round(decisions.per_minute))],
    ["How long they took", times],
    ["Since its start", count(decisions.decided)],
    ["Of these neutral: every node let through", count(decisions.neutral)],
    [`Nodes filtered out${since}`, count(decisions.refused)],
    ["Mostly for", first ? `${first[0]} (${count(first[1])})` : "no reason"],
    ["Pairs measured", count(pairs.measured)],
    ["Pairs estimated", count(pairs.estimated)],
  ];
  return panel(
    `What ${replica} decided`,
    {},
    element(
      "dl",
      { class: "facts wide" },
      facts.map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value))),
    ),
  );
}

function checkLine({ name, ok, text, what_to_do: advice }) {
  const mark = element("span", { class: `status ${ok ? "fresh" : "stale"}` }, ok ? "passes" : "fails");
  return element(
    "li",
    {},
    mark,
    element(
      "div",
      {},
      element("b", {}, name),
      element("div", {}, inLocalTime(text)),
      advice ? element("div", { class: "advice" }, advice) : null,
    ),
  );
}

function certificates(overview) {
  const columns = [
    { title: "Certificate", cell: (certificate) => certificate.name },
    {
      title: "Days left",
      number: true,
      cell: ({ days_left: days }) =>
        element(
          "span",
          { class: days !== null && days < SOON_DAYS ? "bad" : null },
          orUnknown(days, (value) => value.toFixed(1)),
        ),
    },
  ];
  return panel(
    "Certificates",
    {},
    table("Certificates", columns, overview.certificates, { whenEmpty: "kube-scheduler reaches this process without TLS." }),
  );
}

/** The policies in use or refused, with their hashes. */
function policies(signal) {
  const columns = [
    { title: "Policy", cell: (policy) => element("span", { class: "strong" }, policy.name) },
    { title: "Kind", cell: (policy) => policy.kind },
    { title: "State", cell: state },
    { title: "Hash", cell: (policy) => (policy.hash ? element("code", {}, policy.hash) : "") },
    { title: "From", class: "wide-only quiet", cell: (policy) => policy.source },
  ];
  return pagedList(
    (cursor) => get("/policies", { cursor }, signal),
    (items) => table("Policies", columns, items, { whenEmpty: "No policy: the built-in defaults decide.", stacks: true }),
  );
}

function state({ accepted, problems }) {
  const verdict = accepted
    ? element("span", { class: "status fresh" }, "in use")
    : element("span", { class: "status stale" }, "refused");
  return [verdict, problems.map((problem) => element("div", { class: "bad" }, problem))];
}
