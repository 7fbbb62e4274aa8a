"""Pods that come at once, on a real kube-scheduler, two extenders and one etcd: as many are placed as fit.

kube-scheduler asks the two extenders in turn, as through a Service. Alone it counts functions and bytes of the node
only. LEADSMAN_DEVICE_ROUNDS=100 runs each case a hundred times, and -s
shows what came out.
"""

import itertools
import os
import sys
from collections import Counter

import pytest

from tests.whole.devices.device_cluster import GB, VF, link
from tests.whole.devices.extenders_in_turn import ExtendersInTurn
from tests.whole.devices.scheduled_cluster import NODE, Round, ScheduledCluster

pytestmark = pytest.mark.slow

I915, MEMORY = "gpu.intel.com/i915", "gpu.intel.com/memory.max"
ROUNDS = int(os.environ.get("LEADSMAN_DEVICE_ROUNDS", "3"))
ROUNDS_OF_A_KILL = max(1, ROUNDS // 10)
"""In each of them an extender starts again, which takes longer than all else."""

LINK_OF_5 = Round(10, {VF: 1}, "2Gbit", room=5, room_alone=8)

CASES = {
    "8 functions, ten pods of 1 Gbit/s: kube-scheduler alone counts them right": (
        {VF: 8},
        link(10),
        Round(10, {VF: 1}, "1Gbit", room=8, room_alone=8),
    ),
    "8 functions on 10 Gbit/s, ten pods of 2 Gbit/s": ({VF: 8}, link(10), LINK_OF_5),
    "two physical functions of 10 Gbit/s, of which the kubelet takes any": (
        {VF: 16},
        link(10),
        Round(10, {VF: 1}, "2Gbit", room=5, room_alone=10),
    ),
    "two cards of 8 GB, three pods of 5 GB": (
        {I915: 20, MEMORY: 16 * GB},
        {},
        Round(3, {I915: 1, MEMORY: 5 * GB}, "", room=2, room_alone=3),
    ),
}
"""What the node has and reports, and the pods of a round."""


@pytest.mark.parametrize("case", CASES)
def test_no_more_pods_are_placed_than_there_is_room_for(case: str, scheduled: ScheduledCluster) -> None:
    devices, reported, each = CASES[case]
    scheduled.cluster.node(NODE, devices, cards="card0.card1")
    scheduled.with_leadsman(reported)
    placed = 0
    for _ in range(ROUNDS):
        placed += scheduled.place(each)
        scheduled.clear()
    sys.stdout.write(f"\n{case}: {ROUNDS} rounds, {placed} pods placed of {ROUNDS * each.pods}, 0 too many\n")


def test_what_an_extender_reserved_before_it_was_killed_stays_promised(scheduled: ScheduledCluster) -> None:
    """It is killed after it has answered, before kube-scheduler has the answer. kube-scheduler alone: as above."""
    scheduled.cluster.node(NODE, {VF: 8})
    service = scheduled.with_leadsman(link(10))
    placed = 0
    for _ in range(ROUNDS_OF_A_KILL):
        service.before_answer = lambda _, extender: extender.kill() if all(alive(service)) else None
        placed += scheduled.place(LINK_OF_5)
        service.before_answer = lambda *_: None
        assert sorted(alive(service)) == [False, True]
        service.extenders[alive(service).index(False)] = scheduled.extender()
        scheduled.clear()
    sys.stdout.write(f"\nan extender killed a round: {ROUNDS_OF_A_KILL} rounds, {placed} pods placed, 0 too many\n")


MANY_NODES = [f"edge-{number}" for number in range(1, 21)]


@pytest.mark.parametrize(("functions", "alone"), [(8, 160), (16, 200)])
def test_of_200_pods_on_20_links_for_8_each_160_are_placed_while_an_extender_is_killed(
    functions: int, alone: int, scheduled: ScheduledCluster
) -> None:
    """It is killed after its 60th answer, before kube-scheduler has that. alone: how many kube-scheduler counts room
    for, by functions."""
    for name in MANY_NODES:
        scheduled.cluster.node(name, {VF: functions})
    service = scheduled.with_leadsman(link(8), MANY_NODES)
    answers = itertools.count(1)
    service.before_answer = lambda _, extender: extender.kill() if next(answers) == 60 else None
    scheduled.place(Round(200, {VF: 1}, "1Gbit", room=160, room_alone=alone))
    assert Counter(scheduled.cluster.bound()) == dict.fromkeys(MANY_NODES, 8)
    assert sorted(alive(service)) == [False, True]


def alive(service: ExtendersInTurn) -> list[bool]:
    return [one.child.poll() is None for one in service.extenders]
