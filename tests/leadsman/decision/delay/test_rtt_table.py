"""The delay of a pair: only what a fresh reporter measured, and the larger of two reports."""

import math
from collections.abc import Mapping, Set
from itertools import compress
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from msgspec import Struct, structs

from leadsman.decision.delay import rtt_table
from leadsman.decision.delay.rtt_table import Outcome
from leadsman.decision.inputs import DecisionInputs, SourceRow
from leadsman.decision.policy import DelayPolicy, Direction, Policy, Statistic
from leadsman.decision.view import Views
from leadsman.state.records import Latency
from leadsman.state.snapshot import NodeState

if TYPE_CHECKING:
    from tests.leadsman.decision.conftest import Make


class Row(NamedTuple):
    """A MeasuredRow by node name. causes: of the nodes that are not measured, without UNMEASURED."""

    rtt_ms: Mapping[str, float]
    causes: Mapping[str, Outcome]


def measured_row(reference: str, inputs: DecisionInputs) -> Row:
    view = rtt_table.view_of((reference,), inputs)
    row = rtt_table.measured_row(reference, view, inputs)
    readings = dict(zip(view.index.nodes, row.reading.tolist(), strict=False))
    rtt_ms = {node: ms for node, ms in readings.items() if ms >= 0}
    causes = {node: Outcome(int(-code)) for node, code in readings.items() if code < 0}
    return Row(rtt_ms, {node: cause for node, cause in causes.items() if cause is not Outcome.UNMEASURED})


def both_ways(make: "Make", forward: NodeState, backward: NodeState, **delay: Any) -> Row:
    """The pair (ref, node), where ref's state is `forward` and the node's `backward`; every cause is named."""
    facts = make.facts({"ref": forward, "node": backward}, Policy(delay=DelayPolicy(**delay)))
    found = measured_row("ref", facts)
    causes = {} if "node" in found.rtt_ms else {"node": found.causes.get("node", Outcome.UNMEASURED)}
    return Row({node: ms for node, ms in found.rtt_ms.items() if node == "node"}, causes)


@pytest.mark.parametrize(
    ("direction", "ms"), [(Direction.WORST, 9.0), (Direction.FORWARD, 4.0), (Direction.BACKWARD, 9.0)]
)
def test_each_direction_takes_its_reporter(make: "Make", direction: Direction, ms: float) -> None:
    found = both_ways(make, make.state({"node": 4.0}), make.state({"ref": 9.0}), direction=direction)
    assert found == Row({"node": ms}, {})


def test_the_worst_may_be_the_forward_one(make: "Make") -> None:
    assert both_ways(make, make.state({"node": 9.0}), make.state({"ref": 4.0})).rtt_ms == {"node": 9.0}


@pytest.mark.parametrize(("statistic", "ms"), [(Statistic.P50, 4.0), (Statistic.P95, 8.0), (Statistic.MIN, 2.0)])
def test_each_statistic_takes_its_value(make: "Make", statistic: Statistic, ms: float) -> None:
    assert both_ways(make, make.state({"node": 4.0}), make.state(), statistic=statistic).rtt_ms == {"node": ms}


@pytest.mark.parametrize("old", ["stale", "provisional", "silent"])
def test_only_the_fresh_reporter_counts(make: "Make", old: str) -> None:
    assert both_ways(make, make.state({"node": 99.0}, freshness=old), make.state({"ref": 4.0})).rtt_ms == {"node": 4.0}
    assert both_ways(make, make.state({"node": 4.0}), make.state({"ref": 99.0}, freshness=old)).rtt_ms == {"node": 4.0}


@pytest.mark.parametrize(
    ("forward", "backward", "cause"),
    [
        ((None, "fresh"), (None, "fresh"), Outcome.UNMEASURED),
        (({"node": 1.0}, "stale"), (None, "fresh"), Outcome.STALE),
        ((None, "fresh"), ({"ref": 1.0}, "stale"), Outcome.STALE),
        ((None, "fresh"), ({"ref": 1.0}, "provisional"), Outcome.PROVISIONAL),
        (({"node": 1.0}, "provisional"), ({"ref": 1.0}, "stale"), Outcome.STALE),
        (({"node": 1.0}, "silent"), (None, "fresh"), Outcome.STALE),
        (({"node": None}, "fresh"), ({"ref": 1.0}, "stale"), Outcome.NO_REPLY),
        (({"node": None}, "stale"), (None, "fresh"), Outcome.STALE),
    ],
)
def test_an_unknown_delay_says_why(make: "Make", forward: tuple, backward: tuple, cause: Outcome) -> None:
    reports = [make.state(peers, freshness=freshness) for peers, freshness in (forward, backward)]
    assert both_ways(make, *reports) == Row({}, {"node": cause})


def test_a_direction_that_the_policy_leaves_out_is_unmeasured(make: "Make") -> None:
    found = both_ways(make, make.state(), make.state({"ref": 1.0}), direction=Direction.FORWARD)
    assert found.causes == {"node": Outcome.UNMEASURED}


def test_a_statistic_that_a_report_lacks_is_unmeasured(make: "Make") -> None:
    forward = NodeState(
        heartbeat=make.state().heartbeat,
        latency=Latency({"node": make.window(4.0, min_ms=None)}),
        changed_at=make.now,
    )
    assert both_ways(make, forward, make.state(), statistic=Statistic.MIN).causes == {"node": Outcome.UNMEASURED}


def test_the_reference_is_at_zero_whatever_is_reported(make: "Make") -> None:
    facts = make.facts({"ref": make.state({"node": 4.0, "ref": 7.0}, freshness="stale"), "node": make.state()})
    assert measured_row("ref", facts).rtt_ms == {"ref": 0.0}


def test_freshness_ends_at_the_third_missed_interval(make: "Make") -> None:
    nodes = {"ref": make.state({"node": 4.0}), "node": make.state()}
    last = make.now - 1.0 + 15.0
    assert "node" in measured_row("ref", make.facts(nodes, now=last - 0.001)).rtt_ms
    assert "node" not in measured_row("ref", make.facts(nodes, now=last)).rtt_ms


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
def test_other_sources_tell_what_agents_did_not_measure(make: "Make", direction: Direction, ms: float) -> None:
    facts = make.facts({}, Policy(delay=DelayPolicy(direction=direction)), delay_views=(STATIC,))
    assert measured_row("ref", facts).rtt_ms["node"] == ms
    assert measured_row("ref", facts).causes == {"lost": Outcome.NO_REPLY}


def test_a_fresh_agent_comes_before_other_sources_and_a_stale_one_does_not(make: "Make") -> None:
    for freshness, ms in (("fresh", 4.0), ("stale", 9.0)):
        facts = make.facts({"ref": make.state({"node": 4.0}, freshness=freshness)}, delay_views=(STATIC,))
        assert measured_row("ref", facts).rtt_ms["node"] == ms


def test_what_an_agent_probed_in_vain_no_other_source_makes_reachable(make: "Make") -> None:
    facts = make.facts({"ref": make.state({"node": None})}, delay_views=(STATIC,))
    assert measured_row("ref", facts).causes["node"] is Outcome.NO_REPLY
    assert "node" not in measured_row("ref", facts).rtt_ms


def test_a_pair_that_an_agent_measured_is_not_lost_by_another_source(make: "Make") -> None:
    facts = make.facts({"ref": make.state({"lost": 4.0})}, delay_views=(STATIC,))
    assert measured_row("ref", facts).rtt_ms["lost"] == 4.0
    assert measured_row("ref", facts).causes == {}


def test_the_first_source_that_knows_a_pair_decides_on_it(make: "Make") -> None:
    second = Known("goldpinger", {"node": 1.0, "late": 2.0, "lost": 3.0})
    known = measured_row("ref", make.facts({}, delay_views=(STATIC, second))).rtt_ms
    assert known == {"ref": 0.0, "node": 9.0, "other": 8.0, "late": 2.0}


def test_a_source_counts_until_it_is_stale(make: "Make") -> None:
    source = structs.replace(STATIC, fresh_until=make.now + 5.0)
    memo = Views()
    for later, known in ((0.0, True), (4.9, True), (5.0, False)):
        facts = make.facts({}, delay_views=(source,), now=make.now + later, views=memo)
        assert ("node" in measured_row("ref", facts).rtt_ms) is known


def live_nodes(inputs: DecisionInputs) -> Set[str]:
    view = inputs.view()
    return set(compress(view.index.nodes, rtt_table.live_mask(view, inputs)))


def test_alive_are_nodes_with_a_fresh_agent_or_in_a_fresh_source(make: "Make") -> None:
    states = {kind: make.state(freshness=kind) for kind in ("fresh", "stale", "provisional", "silent")}
    assert live_nodes(make.facts(states)) == {"fresh"}
    assert live_nodes(make.facts(states, delay_views=(STATIC,))) == {"fresh", "node", "other", "lost", "ref"}
    assert live_nodes(make.facts(states, delay_views=(structs.replace(STATIC, fresh_until=make.now),))) == {"fresh"}
