"""Inputs of decisions in which agents report round trips, and nothing else is known."""

from collections.abc import Mapping

from leadsman.decision.inputs import DecisionInputs, WorkloadIndex
from leadsman.decision.policy import Policy
from leadsman.state.records import Heartbeat, Latency, PeerLatency
from leadsman.state.snapshot import NodeState, Snapshot


def measured(now: float, rtt_ms: Mapping[str, Mapping[str, float]], *, workloads_listed: bool = True) -> DecisionInputs:
    """rtt_ms: reporter → peer → its round trip, reported a second before `now`."""
    states = {
        reporter: NodeState(
            heartbeat=Heartbeat(1, 1, 5.0),
            latency=Latency({peer: PeerLatency(10, 10, p50_ms=ms, p95_ms=ms, min_ms=ms) for peer, ms in peers.items()}),
            changed_at=now - 1,
        )
        for reporter, peers in rtt_ms.items()
    }
    workloads = WorkloadIndex({}, now if workloads_listed else None)
    return DecisionInputs(Snapshot(states), Policy(), now, workloads=workloads)
