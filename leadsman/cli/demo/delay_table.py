"""The demo's table: what was measured, what was decided, and why. Pure."""

from collections.abc import Mapping
from typing import Any

from leadsman.runtime.text_table import align_columns
from leadsman.state import metric_names
from leadsman.state.snapshot import NodeState, Snapshot

HEADER = ["NODE", "RTT p50", "p95", "LOSS", "CPU busy", "MEM free", "VERDICT", "SCORE", "REASON"]


def render(snapshot: Snapshot, explanation: Mapping[str, Any], reference: str) -> str:
    """The table. explanation: /explain's JSON. RTTs are those that the reference node measured."""
    states, here = snapshot.nodes, snapshot.nodes[reference]
    rows = [_row(node, states[node["node"]], _rtt(here, node["node"])) for node in explanation["nodes"]]
    return "\n".join(align_columns([HEADER, *rows]))


def _row(node: Mapping[str, Any], state: NodeState, rtt: list[str]) -> list[str]:
    values = state.hardware.values if state.hardware else {}
    return [
        node["node"],
        *rtt,
        _shown(values.get(metric_names.CPU_BUSY), "{:.0%}"),
        _shown(values.get(metric_names.MEMORY_AVAILABLE), "{:.0%}"),
        node["verdict"],
        _shown(node["score"], "{}"),
        node["reason"],
    ]


def _rtt(reference: NodeState, node: str) -> list[str]:
    window = reference.latency.peers.get(node) if reference.latency else None
    if window is None:
        return ["-", "-", "-"]
    return [_shown(window.p50_ms, "{:.2f} ms"), _shown(window.p95_ms, "{:.2f} ms"), _shown(window.loss_ratio, "{:.0%}")]


def _shown(value: float | None, form: str) -> str:
    return "-" if value is None else form.format(value)
