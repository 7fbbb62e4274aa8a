"""How long each pod has been healthy, and how long it has been starting: time that was seen, not events. Pure.

A pod's health is as old as the container that was started last. Time in which it is not ready counts for nothing and
does not begin a new health; a restart does.
"""

from msgspec import Struct

from agent.pods.ends import ends
from agent.pods.health import containers, healthy, starting
from apiserver.objects import Pod


class Life(Struct):
    """pod: as it is now. age_seconds: health that was accounted for. healthy_since, starting_since: monotonic seconds;
    None: it is not. tries: how often Events were asked for in vain."""

    pod: Pod
    type: str
    age_seconds: float = 0.0
    healthy_since: float | None = None
    starting_since: float | None = None
    tries: int = 0

    def changed(self, pod: Pod, now: float) -> None:
        """The time since the last account is lost when the pod is not healthy any more: nobody saw when that began."""
        if _ends(pod) != _ends(self.pod):
            self.age_seconds, self.healthy_since = 0.0, None
        self.pod = pod
        self.healthy_since = (self.healthy_since if self.healthy_since is not None else now) if healthy(pod) else None
        self.starting_since = (
            (self.starting_since if self.starting_since is not None else now) if starting(pod) else None
        )

    def account(self, now: float) -> tuple[float, float]:
        """The health's age at the last account, and now."""
        before = self.age_seconds
        if self.healthy_since is not None:
            self.age_seconds += max(0.0, now - self.healthy_since)
            self.healthy_since = now
        return before, self.age_seconds

    def stuck(self, now: float, limit_seconds: float) -> bool:
        return self.starting_since is not None and now - self.starting_since > limit_seconds


def begun(pod: Pod, pod_type: str, now: float, unix: float, kept_until: float) -> Life:
    """A pod that is met for the first time.

    kept_until: Unix seconds up to which its health was accounted for by whoever ran before. What came after is credited
    when it is next accounted for: the container that runs now has run all the while.
    """
    life = Life(pod, pod_type)
    life.changed(pod, now)
    started = started_at(pod)
    if life.healthy_since is not None and started is not None:
        age = max(0.0, unix - started)
        life.age_seconds = min(age, max(0.0, kept_until - started))
        life.healthy_since = now - (age - life.age_seconds)
    return life


def started_at(pod: Pod) -> float | None:
    """When the container that was started last began to run, in the kubelet's Unix seconds."""
    running = (each.state.running for each in pod.status.container_statuses)
    return max((each.started_at.timestamp() for each in running if each and each.started_at), default=None)


def _ends(pod: Pod) -> int:
    return sum(map(ends, containers(pod)))
