"""Tells, by Events on pods with a delay bound that wait, why they wait and what would help; counts them for metrics.

kube-scheduler's own Event says how many nodes refused the pod, without values. One Event is written for each thing that
can be said of a pod, after it has waited for a while, and not again before API servers have forgotten it.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import blake2b

from msgspec import Struct
from prometheus_client.core import GaugeMetricFamily, Metric

from controller.event_recorder import EventRecorder
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import PodInfo
from leadsman.decision.workloads import workload_name
from leadsman.kube.events import LONGEST_NOTE_BYTES
from leadsman.kube.object_changes import ObjectKey
from leadsman.kube.objects import ObjectReference, Pod
from leadsman.kube.owners import pod_owner
from leadsman.planning.waiting_pods import WaitReason, wait_reason
from leadsman.runtime.daemon_thread import run_in_daemon_thread
from leadsman.runtime.token_bucket import TokenBucket

PATIENCE_SECONDS = 15.0
"""A pod that waits for less is not reported: a pair that was unknown is measured by then."""
RECHECK_SECONDS = 300.0
"""Between two looks at a pod. Another nearest node is reported then, the same not again before REPEAT_SECONDS."""
REPEAT_SECONDS = 3700.0
"""API servers keep an Event for an hour."""
MAX_LOOKS = 10
"""In one step; the others come in the next ones."""


class WaitingPod(Struct, frozen=True):
    """A pod with a delay bound for which kube-scheduler found no node. created_at: Unix seconds; None: not said."""

    info: PodInfo
    created_at: float | None


class _Report(Struct):
    """What is remembered of a pod, in monotonic seconds. said: subject of a reason → when it was reported."""

    look_at: float
    said: dict[str, float]


class WaitingPodReporter:
    """Call `sync` in turn while this replica leads, and `reset` while it does not.

    recorder: None: a dry run, which only counts.
    rate: of Events.
    waiting: those of the last step; None: this replica does not lead, or has not looked yet.
    """

    def __init__(
        self,
        pods: Callable[[], Mapping[ObjectKey, Pod]],
        nodes: Callable[[], Sequence[str]],
        inputs: Callable[[], DecisionInputs],
        recorder: EventRecorder | None,
        rate: TokenBucket,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._pods, self._nodes, self._inputs, self._recorder = pods, nodes, inputs, recorder
        self._rate, self._clock, self._wall_clock = rate, clock, wall_clock
        self.waiting: list[WaitingPod] | None = None
        self._reports: dict[str, _Report] = {}

    def reset(self) -> None:
        """Forgets everything, because another replica leads."""
        self.waiting, self._reports = None, {}

    async def sync(self) -> None:
        """Finds the pods that wait, and reports those that are due."""
        pods, nodes, inputs, now = list(self._pods().values()), self._nodes(), self._inputs(), self._clock()
        self.waiting = waiting = await run_in_daemon_thread(lambda: waiting_pods(pods), "find waiting pods")
        self._reports = {
            each.info.uid: self._reports.get(each.info.uid) or _Report(now + PATIENCE_SECONDS, {}) for each in waiting
        }
        due = [each.info for each in waiting if self._reports[each.info.uid].look_at <= now][:MAX_LOOKS]
        if not due or self._recorder is None or not inputs.workloads.loaded:
            return
        reasons = await run_in_daemon_thread(
            lambda: [wait_reason(info, nodes, inputs) for info in due], "explain waiting pods"
        )
        for info, reason in zip(due, reasons, strict=True):
            self._reports[info.uid].look_at = now + RECHECK_SECONDS
            self._report(info, reason, now)

    def families(self) -> Iterator[Metric]:
        """For metrics."""
        if self.waiting is None:
            return
        yield GaugeMetricFamily(
            "leadsman_bounded_pods_waiting",
            "Pods with a delay bound for which kube-scheduler found no node, as this leader sees them.",
            len(self.waiting),
        )
        created = (each.created_at for each in self.waiting if each.created_at is not None)
        oldest = min(created, default=self._wall_clock())
        yield GaugeMetricFamily(
            "leadsman_bounded_pods_longest_wait_seconds",
            "Age of the oldest pod with a delay bound for which kube-scheduler found no node; 0 when none waits.",
            max(0.0, self._wall_clock() - oldest),
        )

    def _report(self, info: PodInfo, reason: WaitReason, now: float) -> None:
        said = self._reports[info.uid].said
        if now - said.get(reason.subject, float("-inf")) < REPEAT_SECONDS or not self._rate.try_take():
            return
        assert self._recorder
        said[reason.subject] = now
        about = ObjectReference("Pod", info.namespace, info.name, info.uid)
        digest = blake2b(reason.subject.encode(), digest_size=4).hexdigest()
        name = f"{info.name[:200].rstrip('.-')}.waiting.{info.uid[:8]}.{digest}"
        note = reason.text.encode()[:LONGEST_NOTE_BYTES].decode(errors="ignore")
        self._recorder.record(about, "BoundWaiting", note, "Schedule", warning=True, name=name)


def waiting_pods(pods: Sequence[Pod]) -> list[WaitingPod]:
    """Of these pods, those with a delay bound that kube-scheduler tried and found no node for."""
    return [
        WaitingPod(info, created.timestamp() if (created := pod.metadata.creation_timestamp) else None)
        for pod in pods
        if pod.unscheduled_reason == "Unschedulable" and not pod.terminating and not pod.spec.node_name
        if (info := _pod_info(pod)).has_delay_bounds
    ]


def _pod_info(pod: Pod) -> PodInfo:
    meta = pod.metadata
    owner = pod_owner(meta.name, meta.owner_references)
    return PodInfo(
        meta.namespace,
        meta.name,
        meta.uid,
        meta.labels,
        meta.annotations,
        workload_name(owner.kind, owner.name, meta.labels),
        meta.labels.excess or meta.annotations.excess,
    )
