"""A small cluster to decide on, in the words of the tests."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, structs

from leadsman.decision.inputs import DecisionInputs, EstimatedRow, PlacedPod, SourceRow, WorkloadIndex
from leadsman.decision.model import PodInfo
from leadsman.decision.policy import Policy
from leadsman.state.records import Hardware, Heartbeat, Latency, PeerLatency
from leadsman.state.snapshot import NodeState, Snapshot

NOW = 100.0
AGE_SECONDS = {"fresh": 1.0, "stale": 15.0}


def window(ms: float | None, **stated: Any) -> PeerLatency:
    """A window with this median; None: every probe was lost."""
    if ms is None:
        return PeerLatency(sent=10, received=0)
    return PeerLatency(**{"sent": 10, "received": 10, "p50_ms": ms, "p95_ms": ms * 2, "min_ms": ms / 2} | stated)


def state(
    peers: Mapping[str, float | None] | None = None,
    metrics: Mapping[str, float] | None = None,
    freshness: str = "fresh",
) -> NodeState:
    """A node's records. peers: name → median RTT in ms; freshness: fresh, stale, provisional or silent."""
    return NodeState(
        heartbeat=None if freshness == "silent" else Heartbeat(epoch=1, seq=1, push_interval_seconds=5.0),
        latency=None if peers is None else Latency({peer: window(ms) for peer, ms in peers.items()}),
        hardware=None if metrics is None else Hardware(dict(metrics)),
        changed_at=NOW - AGE_SECONDS[freshness] if freshness in AGE_SECONDS else None,
    )


def facts(
    nodes: Mapping[str, NodeState], policy: Policy | None = None, now: float = NOW, **others: Any
) -> DecisionInputs:
    return DecisionInputs(Snapshot(nodes=dict(nodes)), policy or Policy(), now, **others)


class Listed(Struct, frozen=True):
    """A DelayView of pairs: (reporter, peer) → ms, None where every probe was lost."""

    source: str
    pairs: Mapping[tuple[str, str], float | None]
    read_at: float | None = None
    fresh_until: float = float("inf")

    @property
    def nodes(self) -> frozenset[str]:
        return frozenset(node for pair, ms in self.pairs.items() if ms is not None for node in pair)

    def row(self, reference: str) -> SourceRow:
        forward = {peer: ms for (reporter, peer), ms in self.pairs.items() if reporter == reference and ms is not None}
        backward = {reporter: ms for (reporter, peer), ms in self.pairs.items() if peer == reference and ms is not None}
        lost = (pair for pair, ms in self.pairs.items() if ms is None and reference in pair)
        return SourceRow(forward, backward, frozenset(node for pair in lost for node in pair if node != reference))


class Guesses(Struct, frozen=True):
    """Estimates: (reference, node) → (low, middle, high) in ms. expected_ms, lowest_ms: of all pairs."""

    table: Mapping[tuple[str, str], tuple[float, float, float]]
    made_at: float = NOW - 30.0
    expected_ms: float = 0.0
    lowest_ms: float = 0.0

    def row(self, reference: str) -> EstimatedRow:
        found = {node: guess for (of, node), guess in self.table.items() if of == reference}
        low, middle, high = zip(*found.values(), strict=True) if found else ((), (), ())
        limits = ([self.expected_ms] * len(found), [self.lowest_ms] * len(found))
        return EstimatedRow(list(found), middle, low, high, ["coordinates"] * len(found), *limits)


def guesses(reference: str, **nodes: tuple[float, float, float]) -> Guesses:
    """node → (low, middle, high) in ms from `reference`."""
    return Guesses({(reference, node): guess for node, guess in nodes.items()})


def workloads(read_at: float | None = NOW - 2.0, **workloads: Sequence[str]) -> WorkloadIndex:
    """kind_name=["pod@node", ...] in the namespace `default`."""
    found: dict[tuple[str, str], dict[str, tuple[PlacedPod, ...]]] = {}
    for key, pods in workloads.items():
        kind, _, name = key.partition("_")
        found.setdefault(("default", name), {})[kind] = tuple(PlacedPod(*pod.split("@")) for pod in pods)
    return WorkloadIndex(found, read_at)


def confirmed(states: Mapping[str, NodeState]) -> dict[str, NodeState]:
    """With each window also at its other end, where that has none."""
    found = {node: dict(each.latency.peers) if each.latency else {} for node, each in states.items()}
    for node, each in states.items():
        for peer, measured in each.latency.peers.items() if each.latency else ():
            found.setdefault(peer, {}).setdefault(node, measured)
    return {node: structs.replace(each, latency=Latency(found[node])) for node, each in states.items()}


def pod(**labels: str) -> PodInfo:
    """A pod with these labels."""
    return PodInfo("default", "pod-1", labels=labels)
