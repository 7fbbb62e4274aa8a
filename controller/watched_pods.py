"""Decodes pods as the controller watches them: the cluster model's pod, and what kube-scheduler made of it."""

from leadsman.cluster.model import ClusterPod
from leadsman.decision.model import PodInfo
from leadsman.sources.cluster.pod_object import PodObject

_NO_POD = ClusterPod("", "", "")


class WatchedPod(PodObject):
    """A pod with what its condition PodScheduled says.

    unscheduled_reason: why kube-scheduler could not place it: Unschedulable, SchedulerError, … (core/v1 types.go); "":
        it could, or has not tried.
    scheduled_at: Unix seconds of its being bound; None: it is not, or nothing says when.
    """

    unscheduled_reason: str = ""
    scheduled_at: float | None = None

    def __post_init__(self) -> None:
        scheduled = next((each for each in self.status.conditions if each.type == "PodScheduled"), None)
        PodObject.__post_init__(self)
        if scheduled is not None and scheduled.status == "False":
            self.unscheduled_reason = scheduled.reason
        elif scheduled is not None and scheduled.last_transition_time is not None:
            self.scheduled_at = scheduled.last_transition_time.timestamp()

    def waits_for(self, reason: str) -> bool:
        """Tells whether kube-scheduler gave up placing the pod for this reason, and it is still to be placed."""
        return self.unscheduled_reason == reason and not self.model.terminating and not self.model.node


class BoundedPod(WatchedPod):
    """A pod that is kept only if it has a delay bound; of the others, perhaps 50,000, only the identity is."""

    def __post_init__(self) -> None:
        WatchedPod.__post_init__(self)
        if self.model.terminating or not PodInfo.of(self.model).has_delay_bounds:
            self.model = _NO_POD
