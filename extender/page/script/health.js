import { get } from "./api.js";
import { element, panel } from "./dom.js";
import { orUnknown } from "./format.js";
import { table } from "./table.js";

const SOON_DAYS = 14;

/** Checks, what to do about those that fail, certificates: #/health. */
export function health(root, _parameters, signal) {
  const body = element("div", { class: "stack" });
  root.append(body);
  return async () => {
    const [{ checks }, overview] = await Promise.all([get("/health", {}, signal), get("/overview", {}, signal)]);
    const failing = checks.filter((check) => !check.ok);
    const title = failing.length
      ? `${failing.length} of ${checks.length} checks fail`
      : `All ${checks.length} checks pass`;
    body.replaceChildren(
      panel(
        title,
        {},
        element("ul", { class: "checks" }, [...failing, ...checks.filter((check) => check.ok)].map(checkLine)),
      ),
      certificates(overview),
    );
  };
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
      element("div", {}, text),
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
    table("Certificates", columns, overview.certificates, { whenEmpty: "This process uses no certificate." }),
  );
}
