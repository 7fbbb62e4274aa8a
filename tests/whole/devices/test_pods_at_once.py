"""Pods that come at once, on a real kube-scheduler, two extenders and one etcd: as many are placed as fit.

kube-scheduler asks the two extenders in turn, as through a Service. Alone it counts functions and bytes of the node
only. LEADSMAN_DEVICE_ROUNDS=100 runs each case a hundred times.
"""

import itertools
import os
from collections import Counter

import pytest

from tests.waiting import blocked_until as until
from tests.whole.devices.device_cluster import (
    GB,
    NODE,
    RETRIED_SECONDS,
    SETTLE_SECONDS,
    VF,
    Round,
    ScheduledCluster,
    link,
)

pytestmark = pytest.mark.slow

I915, MEMORY = "gpu.intel.com/i915", "gpu.intel.com/memory.max"
ROUNDS = int(os.environ.get("LEADSMAN_DEVICE_ROUNDS", "3"))

CASES = {
    "8 functions, ten pods of 1 Gbit/s: kube-scheduler alone counts them right": (
        {VF: 8},
        link(10),
        Round(10, {VF: 1}, "1Gbit", room=8, room_alone=8),
    ),
    "8 functions on 10 Gbit/s, ten pods of 2 Gbit/s": (
        {VF: 8},
        link(10),
        Round(10, {VF: 1}, "2Gbit", room=5, room_alone=8),
    ),
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
    scheduled.run(reported)
    for _ in range(ROUNDS):
        scheduled.place(each)
        scheduled.clear()


MANY_NODES = [f"edge-{number}" for number in range(1, 21)]


@pytest.mark.parametrize(("functions", "alone"), [(8, 160), (16, 200)])
def test_of_200_pods_on_20_links_for_8_each_160_are_placed_while_an_extender_is_killed(
    functions: int, alone: int, scheduled: ScheduledCluster
) -> None:
    """It is killed after its 60th answer, before kube-scheduler has that. alone: how many kube-scheduler counts room
    for, by functions."""
    for name in MANY_NODES:
        scheduled.cluster.node(name, {VF: functions})
    service = scheduled.run(link(8), MANY_NODES)
    answers = itertools.count(1)
    service.before_answer = lambda _, extender: extender.kill() if next(answers) == 60 else None
    scheduled.place(Round(200, {VF: 1}, "1Gbit", room=160, room_alone=alone))
    assert Counter(scheduled.cluster.bound()) == dict.fromkeys(MANY_NODES, 8)
    assert sorted(one.child.poll() is None for one in service.extenders) == [False, True]


def test_a_refused_pod_says_why_and_is_placed_soon_after_the_link_has_room(scheduled: ScheduledCluster) -> None:
    """Nothing of the link is seen by kube-scheduler, which alone tries the pod again after five minutes."""
    scheduled.cluster.node(NODE, {VF: 8})
    reported = link(1)
    scheduled.run(reported)
    for name, bandwidth, said in (
        ("large", "2Gbit", "the node's link has not the bandwidth left"),
        ("bad", "2GB", "annotation leadsman.dev/bandwidth is '2GB'; it must be a number and a unit of bit/s"),
    ):
        scheduled.cluster.asking_pod(name, {VF: 1}, bandwidth)
        until(lambda said=said: said in " ".join(scheduled.cluster.reasons()), f"{name} is refused", SETTLE_SECONDS)
    reported.update(link(10))
    until(lambda: scheduled.cluster.bound("large"), "the pod is placed", RETRIED_SECONDS)
