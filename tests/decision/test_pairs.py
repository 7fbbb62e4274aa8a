"""The delay of a pair: only what a fresh reporter measured, and the larger of two reports."""

from types import SimpleNamespace

import pytest

from clusterstate.records import Latency
from clusterstate.snapshot import NodeState
from decision import pairs
from decision.pairs import Cause, Pairs
from decision.policy import Delay, Direction, Policy, Statistic


def both_ways(make: SimpleNamespace, forward: NodeState, backward: NodeState, **delay: object) -> Pairs:
    """The pair (ref, node), where ref's state is `forward` and the node's `backward`."""
    facts = make.facts({"ref": forward, "node": backward}, Policy(delay=Delay(**delay)))
    return pairs.between("ref", ["node"], facts)


@pytest.mark.parametrize(
    ("direction", "ms"), [(Direction.WORST, 9.0), (Direction.FORWARD, 4.0), (Direction.BACKWARD, 9.0)]
)
def test_each_direction_takes_its_reporter(make: SimpleNamespace, direction: Direction, ms: float) -> None:
    found = both_ways(make, make.state({"node": 4.0}), make.state({"ref": 9.0}), direction=direction)
    assert found == Pairs({"node": ms}, {})


def test_the_worst_may_be_the_forward_one(make: SimpleNamespace) -> None:
    assert both_ways(make, make.state({"node": 9.0}), make.state({"ref": 4.0})).known == {"node": 9.0}


@pytest.mark.parametrize(("statistic", "ms"), [(Statistic.P50, 4.0), (Statistic.P95, 8.0), (Statistic.MIN, 2.0)])
def test_each_statistic_takes_its_value(make: SimpleNamespace, statistic: Statistic, ms: float) -> None:
    assert both_ways(make, make.state({"node": 4.0}), make.state(), statistic=statistic).known == {"node": ms}


@pytest.mark.parametrize("old", ["stale", "provisional", "silent"])
def test_only_the_fresh_reporter_counts(make: SimpleNamespace, old: str) -> None:
    assert both_ways(make, make.state({"node": 99.0}, freshness=old), make.state({"ref": 4.0})).known == {"node": 4.0}
    assert both_ways(make, make.state({"node": 4.0}), make.state({"ref": 99.0}, freshness=old)).known == {"node": 4.0}


@pytest.mark.parametrize(
    ("forward", "backward", "cause"),
    [
        ((None, "fresh"), (None, "fresh"), Cause.UNMEASURED),
        (({"node": 1.0}, "stale"), (None, "fresh"), Cause.STALE),
        ((None, "fresh"), ({"ref": 1.0}, "stale"), Cause.STALE),
        ((None, "fresh"), ({"ref": 1.0}, "provisional"), Cause.PROVISIONAL),
        (({"node": 1.0}, "provisional"), ({"ref": 1.0}, "stale"), Cause.STALE),
        (({"node": 1.0}, "silent"), (None, "fresh"), Cause.STALE),
        (({"node": None}, "fresh"), ({"ref": 1.0}, "stale"), Cause.NO_REPLY),
        (({"node": None}, "stale"), (None, "fresh"), Cause.STALE),
    ],
)
def test_an_unknown_delay_says_why(make: SimpleNamespace, forward: tuple, backward: tuple, cause: Cause) -> None:
    reports = [make.state(peers, freshness=freshness) for peers, freshness in (forward, backward)]
    assert both_ways(make, *reports) == Pairs({}, {"node": cause})


def test_a_direction_that_the_policy_leaves_out_is_unmeasured(make: SimpleNamespace) -> None:
    found = both_ways(make, make.state(), make.state({"ref": 1.0}), direction=Direction.FORWARD)
    assert found.unknown == {"node": Cause.UNMEASURED}


def test_a_lost_direction_leaves_the_other(make: SimpleNamespace) -> None:
    assert both_ways(make, make.state({"node": None}), make.state({"ref": 3.0})).known == {"node": 3.0}


def test_a_statistic_that_a_report_lacks_is_unmeasured(make: SimpleNamespace) -> None:
    forward = NodeState(
        heartbeat=make.state().heartbeat,
        latency=Latency({"node": make.window(4.0, min_ms=None)}),
        changed_at=make.now,
    )
    assert both_ways(make, forward, make.state(), statistic=Statistic.MIN).unknown == {"node": Cause.UNMEASURED}


def test_the_reference_is_at_zero_only_when_it_is_asked_about(make: SimpleNamespace) -> None:
    facts = make.facts({"ref": make.state({"node": 4.0}), "node": make.state()})
    assert pairs.between("ref", ["node", "ref"], facts).known == {"node": 4.0, "ref": 0.0}
    assert pairs.between("ref", ["node"], facts).known == {"node": 4.0}


def test_freshness_ends_at_the_third_missed_interval(make: SimpleNamespace) -> None:
    nodes = {"ref": make.state({"node": 4.0}), "node": make.state()}
    last = make.now - 1.0 + 15.0
    assert pairs.between("ref", ["node"], make.facts(nodes, now=last - 0.001)).known
    assert not pairs.between("ref", ["node"], make.facts(nodes, now=last)).known
