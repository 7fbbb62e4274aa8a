"""Which pods were bound unchecked: those that miss a bound from their binding on, and no others."""

from collections.abc import Mapping

import pytest

from leadsman.decision.model import PodInfo
from leadsman.planning import bounded_pods
from tests.leadsman.planning.measured import measured

UNIX = 1_800_000_000.0


def pod(bound_seconds_ago: float = 1.0, labels: Mapping[str, str] | None = None) -> bounded_pods.BoundPod:
    """On node b."""
    return bounded_pods.BoundPod(PodInfo("ns", "p", "u1", labels or {"delay_a": "25"}), "b", UNIX - bound_seconds_ago)


class Sweeps:
    """One after another, of one pod."""

    def __init__(self, swept: bounded_pods.BoundPod) -> None:
        self.pods, self.memory = [swept], bounded_pods.SweepMemory()

    def at(self, now: float, listed: bool = True, **to_a: float) -> bounded_pods.BoundSweep:
        """to_a: node → its RTT to node a, in ms."""
        inputs = measured(now, {"a": to_a}, workloads_listed=listed)
        sweep = bounded_pods.sweep_bound_pods(self.pods, inputs, self.memory, now, UNIX + now)
        self.memory = sweep.memory
        return sweep


def test_a_pod_that_misses_its_bound_for_the_hold_time_was_bound_unchecked() -> None:
    sweeps = Sweeps(pod())
    assert sweeps.at(0.0, b=80.0).unchecked == ()
    assert sweeps.at(bounded_pods.HOLD_SECONDS - 1, b=80.0).unchecked == ()
    ((_, why),) = sweeps.at(bounded_pods.HOLD_SECONDS, b=80.0).unchecked
    measured_by_a = "80 ms from a (measured by a's agent, 40 to 160 ms, 1.0 s old), bound 25 ms"
    assert why == f"{measured_by_a}; a alone reports it, and nobody confirms it"


@pytest.mark.parametrize("kept_at", [0.0, 5.0])
def test_a_delay_that_changes_after_a_look_at_which_the_bound_was_kept_is_not_the_binding_s_fault(
    kept_at: float,
) -> None:
    sweeps = Sweeps(pod())
    if kept_at:
        sweeps.at(0.0, b=80.0)
    assert sweeps.at(kept_at, b=20.0).ended == {bounded_pods.BoundResult.KEPT: 1}
    assert all(sweeps.at(now, b=80.0).unchecked == () for now in (6.0, 20.0, 300.0))


def test_a_delay_that_is_unknown_proves_nothing_and_is_counted_as_unknown() -> None:
    sweeps = Sweeps(pod())
    assert sweeps.at(0.0).ended == {}
    sweep = sweeps.at(bounded_pods.UNKNOWN_AFTER_SECONDS)
    assert (sweep.unchecked, sweep.ended) == ((), {bounded_pods.BoundResult.UNKNOWN: 1})


def test_a_delay_that_becomes_known_late_must_be_over_for_the_hold_time_too() -> None:
    soon, late = Sweeps(pod()), Sweeps(pod())
    for sweeps, known_at in ((soon, 20.0), (late, bounded_pods.UNKNOWN_AFTER_SECONDS - 5.0)):
        sweeps.at(0.0)
        assert sweeps.at(known_at, b=80.0).ended == {}
    assert soon.at(20.0 + bounded_pods.HOLD_SECONDS, b=80.0).ended == {bounded_pods.BoundResult.UNCHECKED: 1}
    assert late.at(bounded_pods.UNKNOWN_AFTER_SECONDS, b=80.0).ended == {bounded_pods.BoundResult.UNKNOWN: 1}


@pytest.mark.parametrize(
    ("labels", "why"),
    [
        ({"delay_nowhere": "25"}, "no such node or workload nowhere"),
        ({"delay_a": "abc"}, 'label delay_a: "abc" is not valid; use milliseconds such as "25" or "2.5"'),
    ],
)
def test_a_bound_that_every_node_would_have_been_refused_for_was_not_checked(labels: dict[str, str], why: str) -> None:
    sweeps = Sweeps(pod(labels=labels))
    sweeps.at(0.0, b=1.0)
    ((_, found),) = sweeps.at(bounded_pods.HOLD_SECONDS, b=1.0).unchecked
    assert found == why


def test_a_new_leader_leaves_out_what_was_bound_long_before_its_first_look() -> None:
    old, recent = Sweeps(pod(bounded_pods.RECENT_SECONDS + 1)), Sweeps(pod(bounded_pods.RECENT_SECONDS - 1))
    for sweeps in (old, recent):
        sweeps.at(0.0, b=80.0)
    assert old.at(bounded_pods.HOLD_SECONDS, b=80.0).unchecked == ()
    assert len(recent.at(bounded_pods.HOLD_SECONDS, b=80.0).unchecked) == 1


def test_nothing_is_judged_before_workloads_are_listed() -> None:
    sweeps = Sweeps(pod(labels={"delay_nowhere": "25"}))
    assert all(sweeps.at(now, listed=False, b=1.0).unchecked == () for now in (0.0, 100.0))
    assert sweeps.memory == bounded_pods.SweepMemory()
