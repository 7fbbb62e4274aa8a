"""How long each pod has been healthy, and how long it has been starting: time that was seen, not events. Pure.

A pod's health is as old as the container that was started last. Time in which it is not ready counts for nothing and
does not begin a new health; a restart does.
"""

from msgspec import Struct

from agent.pods.container_exits import exit_count
from agent.pods.pod_status import all_containers, is_healthy, is_starting
from leadsman.kube.objects import Pod


class PodHealth(Struct):
    """pod: as it is now. age_seconds: health that was accounted for. healthy_since, starting_since: monotonic seconds;
    None: it is not. tries: how often Events were asked for in vain."""

    pod: Pod
    type: str
    age_seconds: float = 0.0
    healthy_since: float | None = None
    starting_since: float | None = None
    tries: int = 0

    def update(self, pod: Pod, now: float) -> None:
        """The time since the last account is lost when the pod is not healthy any more: nobody saw when that began."""
        if _total_exits(pod) != _total_exits(self.pod):
            self.age_seconds, self.healthy_since = 0.0, None
        self.pod = pod
        self.healthy_since = (
            (self.healthy_since if self.healthy_since is not None else now) if is_healthy(pod) else None
        )
        self.starting_since = (
            (self.starting_since if self.starting_since is not None else now) if is_starting(pod) else None
        )

    def advance(self, now: float) -> tuple[float, float]:
        """The health's age at the last account, and now."""
        before = self.age_seconds
        if self.healthy_since is not None:
            self.age_seconds += max(0.0, now - self.healthy_since)
            self.healthy_since = now
        return before, self.age_seconds

    def is_stuck(self, now: float, limit_seconds: float) -> bool:
        return self.starting_since is not None and now - self.starting_since > limit_seconds


def first_seen_health(pod: Pod, pod_type: str, now: float, unix: float, kept_until: float) -> PodHealth:
    """A pod that is met for the first time.

    kept_until: Unix seconds up to which its health was accounted for by whoever ran before. What came after is credited
    when it is next accounted for: the container that runs now has run all the while.
    """
    life = PodHealth(pod, pod_type)
    life.update(pod, now)
    started = last_container_started_at(pod)
    if life.healthy_since is not None and started is not None:
        age = max(0.0, unix - started)
        life.age_seconds = min(age, max(0.0, kept_until - started))
        life.healthy_since = now - (age - life.age_seconds)
    return life


def last_container_started_at(pod: Pod) -> float | None:
    """When the container that was started last began to run, in the kubelet's Unix seconds."""
    running = (each.state.running for each in pod.status.container_statuses)
    return max((each.started_at.timestamp() for each in running if each and each.started_at), default=None)


def _total_exits(pod: Pod) -> int:
    return sum(map(exit_count, all_containers(pod)))
