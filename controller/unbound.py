"""Binds that kube-scheduler itself could not do, from its Events: counted by cause. None names a node or blames one.

Asked about are only pods that it gave up with an error, each at most once a minute. A pod that no node suits is none
of them, and what an extender's bind answered is told by that extender.
"""

import logging
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from prometheus_client.core import CounterMetricFamily, Metric

from apiserver.errors import ApiError
from apiserver.events import warnings_about
from apiserver.objects import Event, Pod
from apiserver.requests import Client
from controller.rate import Rate
from rewards.causes import Cause

_log = logging.getLogger(__name__)

AGAIN_SECONDS = 60.0
"""kube-scheduler tries such a pod again after 10 s at most, and writes another Event."""

_PLUGIN = re.compile(r'running (?:Pre)?Bind plugin "(?P<name>[^"]+)": ')
"""kube-scheduler's framework/runtime/framework.go, RunPreBindPlugins and RunBindPlugins."""

_TIMED_OUT = re.compile("deadline exceeded|timed out|timeout", re.IGNORECASE)


def cause_of(message: str) -> Cause | None:
    """None: no bind failed, or an extender's, which is counted where it was done."""
    plugin = _PLUGIN.match(message)
    if plugin is None:
        return None
    if plugin["name"] == "VolumeBinding":
        return Cause.CLAIM_UNBOUND
    return Cause.BIND_TIMEOUT if _TIMED_OUT.search(message) else Cause.BIND_REFUSED


def gave_up(pod: Pod) -> bool:
    """With an error, other than that no node suits."""
    return pod.unscheduled_reason == "SchedulerError" and not pod.terminating


class Unbound:
    """Call `round` in turn. rate: of reads. clock: monotonic seconds. For metrics: failures, by cause."""

    def __init__(self, client: Client, rate: Rate, clock: Callable[[], float]):
        self.failures: Counter[Cause] = Counter()
        self._client, self._rate, self._clock = client, rate, clock
        self._asked_at: dict[str, float] = {}
        self._counted: dict[str, dict[str, int]] = {}
        self._silent = False

    async def round(self, pods: Iterable[Pod]) -> None:
        """pods: all that wait to be bound. What was counted of a pod is forgotten when it waits no more."""
        waiting = {pod.metadata.uid: pod for pod in pods}
        self._asked_at = {uid: at for uid, at in self._asked_at.items() if uid in waiting}
        self._counted = {uid: seen for uid, seen in self._counted.items() if uid in waiting}
        for uid, pod in waiting.items():
            if gave_up(pod) and self._is_due(uid) and self._rate.take():
                self._asked_at[uid] = self._clock()
                await self._look(pod)

    def families(self) -> Iterator[Metric]:
        failed = CounterMetricFamily(
            "leadsman_controller_bind_failures", "Of kube-scheduler's own binds, by cause.", labels=["cause"]
        )
        for cause in (Cause.BIND_REFUSED, Cause.BIND_TIMEOUT, Cause.CLAIM_UNBOUND):
            failed.add_metric([cause.value], self.failures[cause])
        yield failed

    def _is_due(self, uid: str) -> bool:
        return self._clock() - self._asked_at.get(uid, float("-inf")) >= AGAIN_SECONDS

    async def _look(self, pod: Pod) -> None:
        """Events that cannot be read now are read the next time."""
        try:
            events = await warnings_about(self._client, pod.metadata)
        except ApiError as error:
            _log.log(logging.DEBUG if self._silent else logging.WARNING, "no Events of failed binds: %s", error)
            self._silent = True
            return
        self._silent = False
        for event in events:
            self._count(pod, event)

    def _count(self, pod: Pod, event: Event) -> None:
        """An Event stands for as many failures as its series counts."""
        cause = cause_of(event.message) if event.reason == "FailedScheduling" else None
        counted = self._counted.setdefault(pod.metadata.uid, {})
        more = event.times - counted.get(event.metadata.uid, 0)
        if cause and more > 0:
            if not counted:
                meta = pod.metadata
                _log.info("kube-scheduler cannot bind %s/%s (%s): %s", meta.namespace, meta.name, cause, event.message)
            counted[event.metadata.uid] = event.times
            self.failures[cause] += more
