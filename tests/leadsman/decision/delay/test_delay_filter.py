"""A delay bound is hard: a node passes only when every bound is known to hold there."""

import random
from typing import Any

import pytest
from msgspec import structs

from leadsman.decision.decide import filter_nodes
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import PodInfo
from leadsman.decision.policy import DelayPolicy, EstimateMode, Policy
from tests.leadsman.decision.conftest import Make

ACCEPT = Policy(delay=DelayPolicy(estimate=EstimateMode.ACCEPT))
NODES = ["edge-1", "edge-2", "edge-3", "edge-4"]


def test_a_missing_reference_refuses_also_when_unknown_delays_are_accepted(make: Make) -> None:
    assert filter_nodes(make.pod(delay_gone="25"), ["n"], make.facts({"n": make.state()}, ACCEPT)).kept == ()


def network(rng: random.Random, make: Make) -> DecisionInputs:
    """Sixty nodes; each pair measured from one side, both or none; some lost, some reporters not fresh."""
    names = [f"n-{number}" for number in range(60)]
    kinds = ["fresh"] * 6 + ["stale", "provisional", "silent"]
    return make.facts(
        {
            name: make.state(
                {peer: rng.choice([rng.uniform(0, 20), 5.0, None]) for peer in rng.sample(names, 40) if peer != name},
                freshness=rng.choice(kinds),
            )
            for name in names
        }
    )


def fresh_reports(facts: DecisionInputs, one: str, other: str) -> list[float]:
    """What fresh reporters measured between two nodes, read from the records alone."""
    found = []
    for reporter, peer in ((one, other), (other, one)):
        state = facts.snapshot.nodes[reporter]
        fresh = state.heartbeat and state.changed_at is not None and facts.now - state.changed_at < 15.0
        window = state.latency.peers.get(peer)
        if fresh and window and window.received:
            assert window.p50_ms is not None
            found.append(window.p50_ms)
    return found


def test_no_random_placement_breaks_its_bounds(make: Make) -> None:
    """A placement is a node that passes for a random pod; both reports of each bound are checked by hand. 100,000 are
    made by `python -m benchmarks.placements`."""
    rng, placed = random.Random(1), 0
    while placed < 10_000:
        facts = network(rng, make)
        names = sorted(facts.snapshot.nodes)
        for _ in range(100):
            bounds = {ref: rng.choice(["0", "5", "12.5", f"{rng.uniform(0, 20):.3f}"]) for ref in rng.sample(names, 2)}
            pod = make.pod(**{f"delay_{reference}": ms for reference, ms in bounds.items()})
            asked = rng.sample(names, 50)
            kept = filter_nodes(pod, asked, facts).kept
            placed += len(kept)
            for node in kept:
                for reference, ms in bounds.items():
                    reports = [0.0] if node == reference else fresh_reports(facts, reference, node)
                    assert reports
                    assert max(reports) <= float(ms)


def _spread(make: Make, workloads: int) -> tuple[DecisionInputs, PodInfo]:
    """A pod with a bound to each of so many workloads, of 16 nodes each."""
    nodes = [f"n-{number}" for number in range(16)]
    running: dict[str, Any] = {
        f"deployment_w-{number}": [f"p-{node}@{node}" for node in nodes] for number in range(workloads)
    }
    facts = make.facts({node: make.state({}) for node in nodes}, workloads=make.workloads(**running))
    return facts, make.pod(**{f"delay_w-{number}": "5" for number in range(workloads)})


def test_bounds_of_one_pod_to_too_many_nodes_are_refused_by_their_number(make: Make) -> None:
    facts, pod = _spread(make, 9)
    reasons = {refusal.reason for refusal in filter_nodes(pod, ["n-0", "n-1"], facts).refused.values()}
    assert reasons == {"the pod's delay bounds are to 144 nodes in all; at most 128 are allowed"}


def test_an_evaluation_that_nobody_waits_for_stops_at_its_next_reference(make: Make) -> None:
    steps = list[int]()

    def stop_at_third() -> None:
        steps.append(1)
        if len(steps) == 3:
            raise InterruptedError

    facts, pod = _spread(make, 8)
    with pytest.raises(InterruptedError):
        filter_nodes(pod, ["n-0"], structs.replace(facts, checkpoint=stop_at_third))
    assert len(steps) == 3
