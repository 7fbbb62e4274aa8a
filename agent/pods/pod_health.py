"""How long each pod has been healthy, and how long it has been starting. Pure.

A pod's health is as old as the container that was started last. A restart begins a new health. Time in which the pod is
not ready counts for nothing, and its health goes on afterwards.
"""

from msgspec import Struct

from agent.pods.container_exits import exit_count
from agent.pods.pod_status import all_containers, is_healthy, is_never_ready, is_starting
from leadsman.kube.objects import Pod


class PodHealth(Struct):
    """One pod's health.

    pod: its present state.
    type: of the pod.
    age_seconds: health that was credited.
    healthy_since, starting_since, unready_since: monotonic seconds; None while it is not healthy, not starting, or not
        one that runs and was never ready.
    """

    pod: Pod
    type: str
    age_seconds: float = 0.0
    healthy_since: float | None = None
    starting_since: float | None = None
    unready_since: float | None = None

    def update(self, pod: Pod, now: float) -> None:
        """Takes the pod's present state. Health since the last credit is lost when it is no longer healthy: nobody saw
        when that began."""
        if _total_exits(pod) != _total_exits(self.pod):
            self.age_seconds, self.healthy_since = 0.0, None
        self.pod = pod
        self.healthy_since = (
            (self.healthy_since if self.healthy_since is not None else now) if is_healthy(pod) else None
        )
        self.starting_since = (
            (self.starting_since if self.starting_since is not None else now) if is_starting(pod) else None
        )

        self.unready_since = (
            (self.unready_since if self.unready_since is not None else now) if is_never_ready(pod) else None
        )

    def advance(self, now: float) -> tuple[float, float]:
        """The age of its health in seconds, at the last call and now."""
        before = self.age_seconds
        if self.healthy_since is not None:
            self.age_seconds += max(0.0, now - self.healthy_since)
            self.healthy_since = now
        return before, self.age_seconds

    def is_stuck(self, now: float, limit_seconds: float) -> bool:
        return self.starting_since is not None and now - self.starting_since > limit_seconds

    def is_unready(self, now: float, limit_seconds: float) -> bool:
        return self.unready_since is not None and now - self.unready_since > limit_seconds


def first_seen_health(pod: Pod, pod_type: str, now: float, unix: float, credited_until: float) -> PodHealth:
    """The health of a pod that this agent sees for the first time.

    credited_until: Unix seconds up to which an earlier agent credited its health. What came after is credited at the
    next credit: the container that runs now has run all the while.
    """
    health = PodHealth(pod, pod_type)
    health.update(pod, now)
    started = last_container_started_at(pod)
    if health.healthy_since is not None and started is not None:
        age = max(0.0, unix - started)
        health.age_seconds = min(age, max(0.0, credited_until - started))
        health.healthy_since = now - (age - health.age_seconds)
    return health


def last_container_started_at(pod: Pod) -> float | None:
    """When the container that was started last began to run, in the kubelet's Unix seconds."""
    running = (each.state.running for each in pod.status.container_statuses)
    return max((each.started_at.timestamp() for each in running if each and each.started_at), default=None)


def _total_exits(pod: Pod) -> int:
    return sum(map(exit_count, all_containers(pod)))
