"""Formats an Explanation for a terminal."""

from collections.abc import Sequence

from leadsman.decision.explain import Explanation, NodeExplanation
from leadsman.runtime import text_table
from leadsman.state.snapshot import Freshness

ROWS = 20


def format_explanation(explanation: Explanation, nodes: int | None = None) -> str:
    """The headline, a table of at most ROWS nodes, and what was left out of it.

    nodes: how many there are in all; None: the explanation has all of them.
    """
    shown = explanation.nodes[:ROWS]
    left_out = (len(explanation.nodes) if nodes is None else nodes) - len(shown)
    plugins = [part.plugin for part in explanation.parts if not part.neutral]
    header = ["NODE", "VERDICT", "SCORE", *map(str.upper, plugins), *map(_title, explanation.decided_on)]
    cells = [_cells(node, plugins, explanation.decided_on) for node in shown]
    lines = [explanation.headline, "", *text_table.align_columns([[*header, "AGE", "REASON"], *cells])]
    return "\n".join([*lines, *_remarks(explanation, shown, left_out)]) + "\n"


def _cells(node: NodeExplanation, plugins: Sequence[str], quantities: Sequence[str]) -> list[str]:
    return [
        node.node,
        node.verdict,
        "-" if node.score is None else str(node.score),
        *(_value(node, plugin) for plugin in plugins),
        *(
            text_table.format_number(node.measured[quantity]) if quantity in node.measured else "-"
            for quantity in quantities
        ),
        _age(node),
        node.reason,
    ]


def _value(node: NodeExplanation, plugin: str) -> str:
    if plugin not in node.values:
        return "-"
    return f"{'~' if plugin in node.unknown else ''}{node.values[plugin]:.2f}"


def _age(node: NodeExplanation) -> str:
    """The age, and the freshness unless it is fresh."""
    age = [] if node.age_seconds is None else [f"{node.age_seconds:.1f}s"]
    return " ".join([*age, *([] if node.freshness == Freshness.FRESH else [node.freshness])])


def _title(quantity: str) -> str:
    """The unit in capitals like the other titles, and a node's name as it is."""
    unit, space, rest = quantity.partition(" ")
    return unit.upper() + space + rest


def _remarks(explanation: Explanation, shown: Sequence[NodeExplanation], left_out: int) -> list[str]:
    remarks = [f"{left_out} more nodes"] if left_out else []
    if left_out and explanation.refused_by_reason:
        remarks.append("refused: " + text_table.format_counts(explanation.refused_by_reason))
    remarks += [f"score not counted: {part.neutral}" for part in explanation.parts if part.neutral]
    remarks += [f"plugin {plugin} raised while explaining: {fault}" for plugin, fault in explanation.faults.items()]
    remarks += [f"{text} is {value}" for text, value in explanation.pod_values.items()]
    if any(node.unknown for node in shown):
        remarks.append("~ unknown, counted as the median")
    return ["", *remarks] if remarks else []
