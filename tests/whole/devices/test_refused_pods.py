"""One pod that is refused, on a real kube-scheduler: what its user reads, and when it is placed after all.

kube-scheduler alone places each of them at once.
"""

import pytest

from tests.whole.conftest import Until
from tests.whole.devices.device_cluster import VF, link
from tests.whole.devices.scheduled_cluster import NODE, RETRIED_SECONDS, SETTLE_SECONDS, ScheduledCluster

pytestmark = pytest.mark.slow


def test_a_pod_that_a_link_refused_is_placed_soon_after_the_link_has_room(
    scheduled: ScheduledCluster, until: Until
) -> None:
    """Nothing of it is seen by kube-scheduler, which alone tries the pod again after five minutes."""
    scheduled.cluster.node(NODE, {VF: 8})
    reported = link(1)
    scheduled.with_leadsman(reported)
    scheduled.cluster.asking_pod("large", {VF: 1}, "2Gbit")
    refused = "the node's link has not the bandwidth left"
    until(
        lambda: any(refused in reason for reason in scheduled.cluster.reasons()), "the pod is refused", SETTLE_SECONDS
    )
    reported.update(link(10))
    until(scheduled.cluster.bound, "the pod is placed", RETRIED_SECONDS)


def test_a_value_that_cannot_be_read_is_told_to_the_user(scheduled: ScheduledCluster, until: Until) -> None:
    scheduled.cluster.node(NODE, {VF: 8})
    scheduled.with_leadsman(link(10))
    scheduled.cluster.asking_pod("bad", {VF: 1}, "2GB")
    events = "/api/v1/namespaces/default/events?fieldSelector=reason=FailedScheduling"
    problem = "annotation leadsman.dev/bandwidth is '2GB'; it must be a number and a unit of bit/s"
    items = lambda: scheduled.cluster.api.call("GET", events)["items"]  # noqa: E731
    until(lambda: any(problem in event["message"] for event in items()), "an Event", SETTLE_SECONDS)
