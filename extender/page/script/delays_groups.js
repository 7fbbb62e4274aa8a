import { element, link } from "./dom.js";
import { count, ms, plural } from "./format.js";
import { heatmap } from "./heatmap.js";
import { legend } from "./legend.js";
import { LogScale } from "./scale.js";

/** Groups × groups as a heatmap of medians; a click opens the block of nodes. → {body, draw} */
export function groupMap(answer, signal) {
  const { groups, median_ms: median, measured, lost } = answer;
  const names = groups.map((group) => group.label);
  const scale = new LogScale(median.flat());
  const outlierBlocks = blocksOf(answer);
  const { box, draw } = heatmap(
    {
      label: "Median round trips between groups of nodes",
      rows: names,
      columns: names,
      rowGroups: null,
      columnGroups: null,
      scale,
      cell: (i, j) => ({
        kind: median[i][j] === null ? "unknown" : measured[i][j] ? "measured" : "estimate",
        value: median[i][j],
        marks: { lost: lost[i][j] > 0, outlier: outlierBlocks.has(`${i} ${j}`) },
      }),
      describe: (i, j) => describeBlock(answer, i, j),
      open: (i, j) => (location.hash = link(["delays", "tile", i, j])),
    },
    signal,
  );
  const hint = element(
    "p",
    { class: "quiet coverage" },
    "Each cell is a median over two groups. Open one to see its nodes.",
  );
  return { body: element("div", { class: "map-body" }, box, legend(scale, GROUP_MARKS, signal, hint)), draw };
}

const GROUP_MARKS = [
  ["measured", "median with measured pairs"],
  ["estimate", "estimates only"],
  ["void", "unknown"],
  ["outlier", "has a pair far above what is expected"],
  ["lost", "has lost probes"],
];

/** Outliers name nodes; those whose groups are known are ringed in the picture. */
function blocksOf({ outliers }) {
  return new Set(
    outliers
      .filter((pair) => Number.isInteger(pair.source_group))
      .map((pair) => `${pair.source_group} ${pair.target_group}`),
  );
}

function describeBlock({ groups, median_ms: median, low_ms: low, high_ms: high, measured, lost }, i, j) {
  const title = i === j ? `within ${groups[i].label}` : `${groups[i].label} → ${groups[j].label}`;
  const size =
    i === j ? plural(groups[i].nodes, "node") : `${count(groups[i].nodes)} × ${plural(groups[j].nodes, "node")}`;
  if (median[i][j] === null) return [title, "unknown: no pair is measured or estimated", size];
  const range = low[i][j] === null ? "" : `, ${ms(low[i][j])} to ${ms(high[i][j])}`;
  const losses = lost[i][j] ? [`${plural(lost[i][j], "pair")} lost all probes`] : [];
  return [title, `median ${ms(median[i][j])}${range}`, `${plural(measured[i][j], "pair")} measured`, ...losses, size];
}
