"""How labels stood over time: what hold times, flips and the stop for want of fresh data are counted on."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from msgspec import Struct, structs

from decision.model import Facts
from decision.telemetry import readings
from decision.telemetry.actions import HOUR_SECONDS, Limits, Memory, Standing
from decision.telemetry.ownership import NodeView, Owned


class Seen(Struct, frozen=True):
    """A node. recorded: as its annotation says. owned: those of them that stand there."""

    view: NodeView
    recorded: Owned
    owned: Owned


def observed(before: Memory, nodes: Iterable[Seen], facts: Facts, limits: Limits) -> Memory:
    """The memory at facts.now. What it has not seen before began now, as far as hold times go."""
    nodes, known = list(nodes), _by_node(before)
    labels = {key: found for each in nodes for key, found in _labels(before, each, known, facts.now)}
    return Memory(
        labels=MappingProxyType({key: label for key, label in labels.items() if _matters(label, facts.now, limits)}),
        reported=_reported(before, frozenset(each.view.name for each in nodes), facts),
        policies=facts.telemetry.policies.used,
        marks=_marks(before, facts.now, limits),
        at=facts.now,
    )


_Keys = Mapping[str, Sequence[str]]
"""Node → label keys."""


def _by_node(memory: Memory) -> _Keys:
    found: dict[str, list[str]] = {}
    for node, key in memory.labels:
        found.setdefault(node, []).append(key)
    return found


def _labels(before: Memory, node: Seen, known: _Keys, now: float) -> Iterator[tuple[tuple[str, str], Standing]]:
    name = node.view.name
    gone = (key for key in known.get(name, ()) if key not in node.owned)
    for key in (*node.owned, *gone):
        value = node.view.labels[key] if key in node.owned else None
        yield (name, key), _stood(before.labels.get((name, key)), value, now, counts=before.at > float("-inf"))


def _stood(before: Standing | None, value: str | None, now: float, counts: bool) -> Standing:
    """counts: whether there was a plan before this one, so that what is new has changed since."""
    if before is None:
        return Standing(value, now, (now,) if counts else ())
    flips = tuple(at for at in before.flips if now - at < HOUR_SECONDS)
    if before.value == value:
        return structs.replace(before, flips=flips)
    return Standing(value, now, (*flips, now))


def _matters(label: Standing, now: float, limits: Limits) -> bool:
    return label.value is not None or bool(label.flips) or now - label.since < limits.hold_seconds


def _reported(before: Memory, nodes: frozenset[str], facts: Facts) -> Mapping[str, Mapping[str, float]]:
    return MappingProxyType(
        {metric: _reporters(before, metric, nodes, facts) for metric in facts.telemetry.policies.metrics}
    )


def _reporters(before: Memory, metric: str, nodes: frozenset[str], facts: Facts) -> Mapping[str, float]:
    """A node that fell silent is missed for an hour, or until it leaves the cluster."""
    known = {node: at for node, at in before.reported.get(metric, {}).items() if facts.now - at < HOUR_SECONDS}
    known.update(dict.fromkeys(readings.reporting(metric, facts), facts.now))
    return {node: at for node, at in known.items() if node in nodes}


def _marks(before: Memory, now: float, limits: Limits) -> float:
    if before.at == float("-inf"):
        return before.marks
    return min(1.0, before.marks + limits.marks_per_second * (now - before.at))
