import { get } from "./api.js";
import { legend, LogScale } from "./colors.js";
import { count, element, link, ms, percent, plural, range } from "./dom.js";
import { heatmap } from "./heatmap.js";

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
        marks: { lost: isMostlyLost(lost[i][j], measured[i][j]), outlier: outlierBlocks.has(`${i} ${j}`) },
      }),
      describe: (i, j) => describeBlock(answer, i, j),
      open: (i, j) => (location.hash = link(["delays", "tile", groups[i].id, groups[j].id])),
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
  ["lost", "a tenth of its links or more give no reply"],
];

const LOST_SHARE = 0.1;

/** A single lost link is named in words beside the map; a mark on each block that has one would hide the bad blocks. */
function isMostlyLost(lost, measured) {
  return lost > 0 && lost >= LOST_SHARE * (lost + measured);
}

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
  const between = [range(low[i][j], high[i][j])].filter(Boolean).map((text) => `, ${text}`);
  const losses = lost[i][j] ? [`${plural(lost[i][j], "link")} without a reply`] : [];
  return [title, `median ${ms(median[i][j])}${between}`, `${plural(measured[i][j], "pair")} measured`, ...losses, size];
}

/** Nodes up to which every pair is a cell of the first picture. */
export const MOST_CELLS = 300;
const TILE = 128;
const ASYMMETRY_RATIO = 0.25;
const ASYMMETRY_MS = 1;

/** Nodes × nodes as a heatmap. area: {nodes} for all, or {rowOffset, columnOffset, rows, columns}. → {body, draw} */
export async function nodeMap({ nodes, rowOffset = 0, columnOffset = 0, rows = nodes, columns = nodes }, signal) {
  const cells = await readArea({ rowOffset, columnOffset, rows, columns }, signal);
  const square = rowOffset === columnOffset && rows === columns;
  const mirrored = square
    ? cells
    : await readArea({ rowOffset: columnOffset, columnOffset: rowOffset, rows: columns, columns: rows }, signal);
  const scale = new LogScale(cells.rtt.flat());
  const asymmetric = (i, j) =>
    differ(cells.rtt[i][j], mirrored.rtt[j]?.[i]) &&
    cells.kind[i][j] === "measured" &&
    mirrored.kind[j][i] === "measured";
  const { box, draw } = heatmap(
    {
      label: "Round trips between nodes",
      ...cells,
      scale,
      cell: (i, j) => ({ kind: cells.kind[i][j], value: cells.rtt[i][j], marks: { asymmetric: asymmetric(i, j) } }),
      describe: (i, j) => describeCell(cells, mirrored, i, j),
      open: (i, j) => {
        const same = cells.rows[i] === cells.columns[j];
        location.hash = same ? link(["nodes", cells.rows[i]]) : link(["delays", cells.rows[i], cells.columns[j]]);
      },
    },
    signal,
  );
  const body = element("div", { class: "map-body" }, box, legend(scale, NODE_MARKS, signal, coverage(cells)));
  return { body, draw };
}

const NODE_MARKS = [
  ["measured", "measured"],
  ["estimate", "estimate, paler"],
  ["lost", "no reply"],
  ["void", "unknown"],
  ["asymmetric", "the way back differs by over 25 %"],
];

/** The server gives 128 × 128 cells at a time. */
async function readArea({ rowOffset, columnOffset, rows, columns }, signal) {
  const starts = (length) => Array.from({ length: Math.ceil(length / TILE) }, (_, i) => i * TILE);
  const bands = await Promise.all(
    starts(rows).map((row) =>
      Promise.all(
        starts(columns).map((column) =>
          get(
            "/delays/cells",
            {
              row_offset: rowOffset + row,
              column_offset: columnOffset + column,
              rows: Math.min(TILE, rows - row),
              columns: Math.min(TILE, columns - column),
            },
            signal,
          ),
        ),
      ),
    ),
  );
  const joined = (field) =>
    bands.flatMap((band) => band[0][field].map((_, i) => band.flatMap((tile) => tile[field][i])));
  return {
    rows: bands.flatMap((band) => band[0].row_names),
    columns: bands[0].flatMap((tile) => tile.column_names),
    rowGroups: bands.flatMap((band) => band[0].row_groups),
    columnGroups: bands[0].flatMap((tile) => tile.column_groups),
    rtt: joined("rtt_ms"),
    kind: joined("kind"),
    low: joined("low_ms"),
    high: joined("high_ms"),
  };
}

function differ(there, back) {
  if (there === null || back === null || back === undefined) return false;
  const difference = Math.abs(there - back);
  return difference > ASYMMETRY_MS && difference > ASYMMETRY_RATIO * Math.min(there, back);
}

function describeCell(cells, mirrored, i, j) {
  const title = `${cells.rows[i]} → ${cells.columns[j]}`;
  const value = cells.rtt[i][j];
  if (cells.kind[i][j] === "self") return [cells.rows[i], "itself"];
  if (cells.kind[i][j] === "lost") return [title, "probes were sent, none was answered"];
  if (value === null) return [title, "unknown: neither measured nor estimated"];
  const back = mirrored.rtt[j]?.[i] ?? null;
  const way = back === null ? [] : [`way back ${ms(back)}${mirrored.kind[j][i] === "estimate" ? ", estimate" : ""}`];
  if (cells.kind[i][j] === "measured") return [title, `${ms(value)}, measured`, ...way];
  const between = [range(cells.low[i][j], cells.high[i][j])].filter(Boolean).map((text) => `, ${text}`);
  return [title, `${ms(value)}, estimate${between}`, ...way];
}

function coverage(cells) {
  const kinds = cells.kind.flat();
  const number = (kind) => kinds.filter((each) => each === kind).length;
  const pairs = kinds.length - number("self");
  const share = (kind) => percent(pairs ? number(kind) / pairs : 0);
  const text = `Of ${plural(pairs, "direction")} ${share("measured")} are measured, ${share("estimate")} estimated, ${count(number("lost"))} lost, ${count(number("unknown"))} unknown.`;
  return element("p", { class: "quiet coverage" }, text);
}
