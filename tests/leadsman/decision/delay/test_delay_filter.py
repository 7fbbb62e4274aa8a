"""A delay bound is hard: a node passes only when every bound is known to hold there."""

import random
from typing import TYPE_CHECKING

import pytest

from leadsman.decision.decide import filter_nodes
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.policy import DelayPolicy, EstimateMode, Policy

if TYPE_CHECKING:
    from tests.leadsman.decision.conftest import Make

ACCEPT = Policy(delay=DelayPolicy(estimate=EstimateMode.ACCEPT))
NO_EDGE_9 = "no such node edge-9; workloads are not listed yet"
NODES = ["edge-1", "edge-2", "edge-3", "edge-4"]


def kept(edge: DecisionInputs, make: "Make", **labels: str) -> tuple[str, ...]:
    return filter_nodes(make.pod(**labels), NODES, edge).kept


def reasons(edge: DecisionInputs, make: "Make", labels: dict[str, str]) -> dict[str, str]:
    return {node: refusal.reason for node, refusal in filter_nodes(make.pod(**labels), NODES, edge).refused.items()}


@pytest.mark.parametrize(
    ("ms", "left"),
    [
        ("0", ("edge-1",)),
        ("12.124", ("edge-1",)),
        ("12.125", ("edge-1", "edge-2")),
        ("39.9", ("edge-1", "edge-2")),
        ("40", ("edge-1", "edge-2", "edge-3")),
        ("10000", ("edge-1", "edge-2", "edge-3")),
    ],
)
def test_the_bound_itself_holds_and_anything_above_does_not(
    edge: DecisionInputs, make: "Make", ms: str, left: tuple[str, ...]
) -> None:
    assert kept(edge, make, **{"delay_edge-1": ms}) == left


def test_each_refusal_has_its_reason(edge: DecisionInputs, make: "Make") -> None:
    assert reasons(edge, make, {"delay_edge-1": "25"}) == {
        "edge-3": "delay to edge-1 over 25 ms",
        "edge-4": "delay to edge-1 was not measured",
    }


def test_all_labels_must_hold(make: "Make") -> None:
    facts = make.facts({"a": make.state({"n": 1.0, "m": 1.0}), "b": make.state({"n": 9.0, "m": 1.0})})
    for pod in (make.pod(delay_a="5", delay_b="5"), make.pod(delay_b="5", delay_a="5")):
        judged = filter_nodes(pod, ["n", "m"], facts)
        assert judged.kept == ("m",)
        assert judged.refused["n"].reason == "delay to b over 5 ms"


def test_a_missing_reference_refuses_every_node(edge: DecisionInputs, make: "Make") -> None:
    assert reasons(edge, make, {"delay_edge-9": "25"}) == dict.fromkeys(NODES, NO_EDGE_9)


def test_a_missing_reference_refuses_also_when_unknown_delays_are_accepted(make: "Make") -> None:
    assert filter_nodes(make.pod(delay_gone="25"), ["n"], make.facts({"n": make.state()}, ACCEPT)).kept == ()


def test_a_node_asked_about_exists_even_without_an_agent(make: "Make") -> None:
    judged = filter_nodes(make.pod(delay_bare="25"), ["bare", "n"], make.facts({"n": make.state()}))
    assert judged.kept == ("bare",)
    assert judged.refused["n"].reason == "delay to bare was not measured"


def test_names_are_exact(make: "Make") -> None:
    """The original matched substrings, so edge-1 also meant edge-10."""
    facts = make.facts({"edge-10": make.state({"n": 1.0}), "edge-1": make.state({"n": 50.0}), "n": make.state()})
    assert filter_nodes(make.pod(**{"delay_edge-1": "5"}), ["n"], facts).kept == ()
    assert (
        filter_nodes(make.pod(delay_edge="5"), ["n"], facts).refused["n"].reason
        == "no such node edge; workloads are not listed yet"
    )


def test_a_node_name_may_have_dots(make: "Make") -> None:
    facts = make.facts({"a.example.com": make.state({"n": 1.0}), "n": make.state()})
    assert filter_nodes(make.pod(**{"delay_a.example.com": "5"}), ["n"], facts).kept == ("n",)


@pytest.mark.parametrize("value", ["-1", "abc", "", "nan", "1e3"])
def test_a_bad_label_refuses_every_node_and_says_which(edge: DecisionInputs, make: "Make", value: str) -> None:
    said = reasons(edge, make, {"delay_edge-1": value, "delay_edge-2": "5"})
    assert said == dict.fromkeys(
        NODES, f'label delay_edge-1: "{value}" is not valid; use milliseconds such as "25" or "2.5"'
    )


@pytest.mark.parametrize(
    ("freshness", "reason"),
    [
        ("stale", "delay to ref is stale"),
        ("silent", "delay to ref is stale"),
        ("provisional", "delay to ref was read at start and not confirmed by a new report"),
    ],
)
def test_an_old_report_refuses_with_its_own_reason(make: "Make", freshness: str, reason: str) -> None:
    facts = make.facts({"ref": make.state({"n": 1.0}, freshness=freshness), "n": make.state()})
    assert filter_nodes(make.pod(delay_ref="5"), ["n"], facts).refused["n"].reason == reason


def test_silence_on_the_path_refuses_with_its_own_reason(make: "Make") -> None:
    facts = make.facts({"ref": make.state({"n": None}), "n": make.state()})
    assert (
        filter_nodes(make.pod(delay_ref="5"), ["n"], facts).refused["n"].reason == "no reply between the node and ref"
    )


def test_accept_lets_unknown_delays_pass_but_never_known_ones_over_the_bound(make: "Make") -> None:
    states = {"ref": make.state({"far": 50.0, "lost": None}), "old": make.state({"ref": 1.0}, freshness="stale")}
    judged = filter_nodes(make.pod(delay_ref="5"), ["far", "lost", "old", "new"], make.facts(states, ACCEPT))
    assert judged.kept == ("old", "new")
    assert judged.refused["lost"].reason == "no reply between the node and ref"


def test_a_pod_without_bounds_passes_everywhere(make: "Make") -> None:
    assert filter_nodes(make.pod(app="x"), NODES, make.facts({})) == (tuple(NODES), {})


def network(rng: random.Random, make: "Make") -> DecisionInputs:
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


def test_no_random_placement_breaks_its_bounds(make: "Make") -> None:
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
