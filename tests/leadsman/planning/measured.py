"""Inputs of decisions in which agents report round trips, and nothing else is known."""

from collections.abc import Mapping

from msgspec.structs import replace

from leadsman.decision.inputs import DecisionInputs, WorkloadIndex
from leadsman.decision.policy import Policy
from leadsman.state.snapshot import Snapshot
from tests.leadsman.decision import make


def measured(now: float, rtt_ms: Mapping[str, Mapping[str, float]], *, workloads_listed: bool = True) -> DecisionInputs:
    """rtt_ms: reporter → peer → its round trip, reported a second before `now`."""
    states = {reporter: replace(make.state(peers), changed_at=now - 1) for reporter, peers in rtt_ms.items()}
    workloads = WorkloadIndex({}, now if workloads_listed else None)
    return DecisionInputs(Snapshot(states), Policy(), now, workloads=workloads)
