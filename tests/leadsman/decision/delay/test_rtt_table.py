"""The delay of a pair: only what a fresh reporter measured, and the larger of two reports."""

import math
from collections.abc import Mapping, Set
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import Struct, structs

from leadsman.decision.cache import DecisionCache
from leadsman.decision.delay import rtt_table
from leadsman.decision.delay.rtt_table import DelayCause, MeasuredRow
from leadsman.decision.delay.views import SourceRow
from leadsman.decision.policy import DelayPolicy, Direction, Policy, Statistic
from leadsman.state.records import Latency
from leadsman.state.snapshot import NodeState


def both_ways(make: SimpleNamespace, forward: NodeState, backward: NodeState, **delay: Any) -> MeasuredRow:
    """The pair (ref, node), where ref's state is `forward` and the node's `backward`."""
    facts = make.facts({"ref": forward, "node": backward}, Policy(delay=DelayPolicy(**delay)))
    found = rtt_table.measured_row("ref", facts)
    causes = {} if "node" in found.rtt_ms else {"node": found.causes.get("node", DelayCause.UNMEASURED)}
    return MeasuredRow({node: ms for node, ms in found.rtt_ms.items() if node == "node"}, causes)


@pytest.mark.parametrize(
    ("direction", "ms"), [(Direction.WORST, 9.0), (Direction.FORWARD, 4.0), (Direction.BACKWARD, 9.0)]
)
def test_each_direction_takes_its_reporter(make: SimpleNamespace, direction: Direction, ms: float) -> None:
    found = both_ways(make, make.state({"node": 4.0}), make.state({"ref": 9.0}), direction=direction)
    assert found == MeasuredRow({"node": ms}, {})


def test_the_worst_may_be_the_forward_one(make: SimpleNamespace) -> None:
    assert both_ways(make, make.state({"node": 9.0}), make.state({"ref": 4.0})).rtt_ms == {"node": 9.0}


@pytest.mark.parametrize(("statistic", "ms"), [(Statistic.P50, 4.0), (Statistic.P95, 8.0), (Statistic.MIN, 2.0)])
def test_each_statistic_takes_its_value(make: SimpleNamespace, statistic: Statistic, ms: float) -> None:
    assert both_ways(make, make.state({"node": 4.0}), make.state(), statistic=statistic).rtt_ms == {"node": ms}


@pytest.mark.parametrize("old", ["stale", "provisional", "silent"])
def test_only_the_fresh_reporter_counts(make: SimpleNamespace, old: str) -> None:
    assert both_ways(make, make.state({"node": 99.0}, freshness=old), make.state({"ref": 4.0})).rtt_ms == {"node": 4.0}
    assert both_ways(make, make.state({"node": 4.0}), make.state({"ref": 99.0}, freshness=old)).rtt_ms == {"node": 4.0}


@pytest.mark.parametrize(
    ("forward", "backward", "cause"),
    [
        ((None, "fresh"), (None, "fresh"), DelayCause.UNMEASURED),
        (({"node": 1.0}, "stale"), (None, "fresh"), DelayCause.STALE),
        ((None, "fresh"), ({"ref": 1.0}, "stale"), DelayCause.STALE),
        ((None, "fresh"), ({"ref": 1.0}, "provisional"), DelayCause.PROVISIONAL),
        (({"node": 1.0}, "provisional"), ({"ref": 1.0}, "stale"), DelayCause.STALE),
        (({"node": 1.0}, "silent"), (None, "fresh"), DelayCause.STALE),
        (({"node": None}, "fresh"), ({"ref": 1.0}, "stale"), DelayCause.NO_REPLY),
        (({"node": None}, "stale"), (None, "fresh"), DelayCause.STALE),
    ],
)
def test_an_unknown_delay_says_why(make: SimpleNamespace, forward: tuple, backward: tuple, cause: DelayCause) -> None:
    reports = [make.state(peers, freshness=freshness) for peers, freshness in (forward, backward)]
    assert both_ways(make, *reports) == MeasuredRow({}, {"node": cause})


def test_a_direction_that_the_policy_leaves_out_is_unmeasured(make: SimpleNamespace) -> None:
    found = both_ways(make, make.state(), make.state({"ref": 1.0}), direction=Direction.FORWARD)
    assert found.causes == {"node": DelayCause.UNMEASURED}


def test_a_lost_direction_leaves_the_other(make: SimpleNamespace) -> None:
    assert both_ways(make, make.state({"node": None}), make.state({"ref": 3.0})).rtt_ms == {"node": 3.0}


def test_a_statistic_that_a_report_lacks_is_unmeasured(make: SimpleNamespace) -> None:
    forward = NodeState(
        heartbeat=make.state().heartbeat,
        latency=Latency({"node": make.window(4.0, min_ms=None)}),
        changed_at=make.now,
    )
    assert both_ways(make, forward, make.state(), statistic=Statistic.MIN).causes == {"node": DelayCause.UNMEASURED}


def test_the_reference_is_at_zero_whatever_is_reported(make: SimpleNamespace) -> None:
    facts = make.facts({"ref": make.state({"node": 4.0, "ref": 7.0}, freshness="stale"), "node": make.state()})
    assert rtt_table.measured_row("ref", facts).rtt_ms == {"ref": 0.0}


def test_freshness_ends_at_the_third_missed_interval(make: SimpleNamespace) -> None:
    nodes = {"ref": make.state({"node": 4.0}), "node": make.state()}
    last = make.now - 1.0 + 15.0
    assert "node" in rtt_table.measured_row("ref", make.facts(nodes, now=last - 0.001)).rtt_ms
    assert "node" not in rtt_table.measured_row("ref", make.facts(nodes, now=last)).rtt_ms


class Known(Struct, frozen=True):
    """A source that knows one reference, `ref`."""

    source: str
    forward: Mapping[str, float]
    backward: Mapping[str, float] = {}
    lost: Set[str] = frozenset()
    read_at: float | None = None
    fresh_until: float = math.inf

    @property
    def nodes(self) -> Set[str]:
        return {"ref", *self.forward, *self.backward, *self.lost}

    def row(self, reference: str) -> SourceRow:
        return SourceRow(self.forward, self.backward, self.lost) if reference == "ref" else SourceRow()


STATIC = Known("static", {"node": 7.0, "other": 8.0}, {"node": 9.0}, {"lost"})


@pytest.mark.parametrize(
    ("direction", "ms"), [(Direction.WORST, 9.0), (Direction.FORWARD, 7.0), (Direction.BACKWARD, 9.0)]
)
def test_other_sources_tell_what_agents_did_not_measure(make: SimpleNamespace, direction: Direction, ms: float) -> None:
    facts = make.facts({}, Policy(delay=DelayPolicy(direction=direction)), delay_views=(STATIC,))
    assert rtt_table.measured_row("ref", facts).rtt_ms["node"] == ms
    assert rtt_table.measured_row("ref", facts).causes == {"lost": DelayCause.NO_REPLY}


def test_a_fresh_agent_comes_before_other_sources_and_a_stale_one_does_not(make: SimpleNamespace) -> None:
    for freshness, ms in (("fresh", 4.0), ("stale", 9.0)):
        facts = make.facts({"ref": make.state({"node": 4.0}, freshness=freshness)}, delay_views=(STATIC,))
        assert rtt_table.measured_row("ref", facts).rtt_ms["node"] == ms


def test_what_an_agent_probed_in_vain_no_other_source_makes_reachable(make: SimpleNamespace) -> None:
    facts = make.facts({"ref": make.state({"node": None})}, delay_views=(STATIC,))
    assert rtt_table.measured_row("ref", facts).causes["node"] is DelayCause.NO_REPLY
    assert "node" not in rtt_table.measured_row("ref", facts).rtt_ms


def test_a_pair_that_an_agent_measured_is_not_lost_by_another_source(make: SimpleNamespace) -> None:
    facts = make.facts({"ref": make.state({"lost": 4.0})}, delay_views=(STATIC,))
    assert rtt_table.measured_row("ref", facts).rtt_ms["lost"] == 4.0
    assert rtt_table.measured_row("ref", facts).causes == {}


def test_the_first_source_that_knows_a_pair_decides_on_it(make: SimpleNamespace) -> None:
    second = Known("goldpinger", {"node": 1.0, "late": 2.0, "lost": 3.0})
    known = rtt_table.measured_row("ref", make.facts({}, delay_views=(STATIC, second))).rtt_ms
    assert known == {"ref": 0.0, "node": 9.0, "other": 8.0, "late": 2.0}


def test_a_source_counts_until_it_is_stale(make: SimpleNamespace) -> None:
    source = structs.replace(STATIC, fresh_until=make.now + 5.0)
    memo = DecisionCache()
    for later, known in ((0.0, True), (4.9, True), (5.0, False)):
        facts = make.facts({}, delay_views=(source,), now=make.now + later, cache=memo)
        assert ("node" in rtt_table.measured_row("ref", facts).rtt_ms) is known


def test_alive_are_nodes_with_a_fresh_agent_or_in_a_fresh_source(make: SimpleNamespace) -> None:
    states = {kind: make.state(freshness=kind) for kind in ("fresh", "stale", "provisional", "silent")}
    assert rtt_table.live_nodes(make.facts(states)) == {"fresh"}
    assert rtt_table.live_nodes(make.facts(states, delay_views=(STATIC,))) == {"fresh", "node", "other", "lost", "ref"}
    assert rtt_table.live_nodes(make.facts(states, delay_views=(structs.replace(STATIC, fresh_until=make.now),))) == {
        "fresh"
    }
