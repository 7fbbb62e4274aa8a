"""Counts by cause the binds that kube-scheduler itself failed to make, from its Events, which name no node.

Events are read only of pods that kube-scheduler gave up with an error, each at most once a minute. Pods that fit no
node are not among them, and binds through an extender are reported by that extender.
"""

import logging
import re
from collections import Counter
from collections.abc import Iterator

from prometheus_client.core import Metric

from controller.keeper import Keeper, Tools
from controller.watched_pods import WatchedPod
from leadsman.kube.events import warnings_about
from leadsman.kube.objects import Event
from leadsman.kube.reflector import Reflector
from leadsman.rewards.incident_causes import IncidentCause
from leadsman.runtime.scrape import counter
from leadsman.runtime.token_bucket import TokenBucket

_log = logging.getLogger(__name__)

REREAD_INTERVAL_SECONDS = 60.0
"""kube-scheduler tries such a pod again after 10 s at most, and writes another Event."""

_PLUGIN = re.compile(r'running (?:Pre)?Bind plugin "(?P<name>[^"]+)": ')
"""kube-scheduler's framework/runtime/framework.go, RunPreBindPlugins and RunBindPlugins."""

_TIMED_OUT = re.compile("deadline exceeded|timed out|timeout", re.IGNORECASE)


def bind_failure_cause(message: str) -> IncidentCause | None:
    """Finds the cause that an Event's message names; None: no bind failed, or one that an extender made and reports."""
    plugin = _PLUGIN.match(message)
    if plugin is None:
        return None
    if plugin["name"] == "VolumeBinding":
        return IncidentCause.CLAIM_UNBOUND
    return IncidentCause.BIND_TIMEOUT if _TIMED_OUT.search(message) else IncidentCause.BIND_REFUSED


class BindFailureCounter(Keeper):
    """Reads Events and counts failed binds.

    pending: all pods that wait to be bound; others are forgotten.
    rate: of reads.
    failures: cause → failed binds so far.
    """

    name = "count bind failures"
    problem_texts = (
        "controller cannot read Events of pods that failed to bind; it tries again (may it list events?)",
        "controller reads Events of pods that failed to bind again",
    )

    def __init__(self, tools: Tools, pending: Reflector[WatchedPod], rate: TokenBucket) -> None:
        super().__init__(tools, [pending])
        self.failures: Counter[IncidentCause] = Counter()
        self._pending, self._rate = pending, rate
        self._read_at: dict[str, float] = {}
        self._counted: dict[str, dict[str, int]] = {}

    async def keep(self) -> None:
        """Reads the Events that are due."""
        waiting = {pod.metadata.uid: pod for pod in self._pending.current.values()}
        self._read_at = {uid: at for uid, at in self._read_at.items() if uid in waiting}
        self._counted = {uid: counted for uid, counted in self._counted.items() if uid in waiting}
        for uid, pod in waiting.items():
            if pod.waits_for("SchedulerError") and self._is_due(uid) and self._rate.try_take():
                self._read_at[uid] = self.tools.clock()
                await self._read_events(pod)

    def families(self) -> Iterator[Metric]:
        causes = (IncidentCause.BIND_REFUSED, IncidentCause.BIND_TIMEOUT, IncidentCause.CLAIM_UNBOUND)
        yield counter(
            "leadsman_controller_bind_failures",
            "Binds that kube-scheduler itself failed to make, by cause.",
            {cause.value: self.failures[cause] for cause in causes},
            "cause",
        )

    def _is_due(self, uid: str) -> bool:
        return self.tools.clock() - self._read_at.get(uid, float("-inf")) >= REREAD_INTERVAL_SECONDS

    async def _read_events(self, pod: WatchedPod) -> None:
        """Events that cannot be read now are read when the pod is due again."""
        for event in await warnings_about(self.tools.client, pod.metadata):
            self._count(pod, event)

    def _count(self, pod: WatchedPod, event: Event) -> None:
        """Counts as many failures as the Event's series does."""
        cause = bind_failure_cause(event.message) if event.reason == "FailedScheduling" else None
        counted = self._counted.setdefault(pod.metadata.uid, {})
        more = event.occurrences - counted.get(event.metadata.uid, 0)
        if cause and more > 0:
            if not counted:
                meta = pod.metadata
                _log.info("kube-scheduler cannot bind %s/%s (%s): %s", meta.namespace, meta.name, cause, event.message)
            counted[event.metadata.uid] = event.occurrences
            self.failures[cause] += more
