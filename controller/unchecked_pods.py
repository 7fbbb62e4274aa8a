"""Looks at pods with a delay bound once they are bound. One that was bound against its bound gets an Event: the
extender was not asked, or was skipped. Where it is switched on, one that was bound well gets one too, with its delay.

With the component `replacement` such a pod is moved, as any other that is over its bound.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime

from msgspec import Struct
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from controller.event_recorder import EventRecorder
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import PodInfo
from leadsman.decision.workloads import workload_name
from leadsman.kube.client import ApiClient
from leadsman.kube.events import LONGEST_NOTE_BYTES
from leadsman.kube.listing import ListOptions
from leadsman.kube.objects import Condition, ObjectReference
from leadsman.kube.owners import pod_owner
from leadsman.kube.reflector import Reflector
from leadsman.kube.resources import PODS
from leadsman.planning.bound_sweep import (
    BoundPod,
    BoundResult,
    SweepMemory,
    UncheckedPod,
    placement_reason,
    pods_over_bounds,
    sweep_bound_pods,
)
from leadsman.runtime.daemon_thread import run_in_daemon_thread
from leadsman.sources.cluster.object_metadata import MetadataFields
from leadsman.sources.cluster.workload_follower import UNFINISHED_PODS

COUNT_INTERVAL_SECONDS = 30.0
"""Between two counts of all pods over their bounds: each asks for an evaluation of every one."""

BOUND_PODS = f"spec.nodeName!=,{UNFINISHED_PODS}"


class _Spec(Struct, frozen=True, gc=False, rename="camel"):
    node_name: str = ""


class _Status(Struct, frozen=True, gc=False):
    conditions: tuple[Condition, ...] = ()


_NO_SPEC, _NO_STATUS = _Spec(), _Status()


class BoundPodObject(Struct, gc=False):
    """A pod on a node: once it is decoded, its identity and, if it has a delay bound, `bound`. The rest is dropped at
    once: 50,000 of these are kept."""

    metadata: MetadataFields
    spec: _Spec = _NO_SPEC
    status: _Status = _NO_STATUS
    bound: BoundPod | None = None

    def __post_init__(self) -> None:
        self.bound = _bound_pod(self.metadata, self.spec.node_name, self.status.conditions)
        self.metadata, self.spec, self.status = self.metadata.identity(), _NO_SPEC, _NO_STATUS


def _bound_pod(meta: MetadataFields, node: str, conditions: Iterable[Condition]) -> BoundPod | None:
    excess = meta.labels.excess or meta.annotations.excess
    owner = pod_owner(meta.name, meta.owner_references)
    workload = workload_name(owner.kind, owner.name, meta.labels)
    info = PodInfo(meta.namespace, meta.name, meta.uid, meta.labels, meta.used_annotations(), workload, excess)
    if not info.has_delay_bounds or meta.deletion_timestamp:
        return None
    at: datetime | None = next((each.last_transition_time for each in conditions if each.type == "PodScheduled"), None)
    return BoundPod(info, node, at.timestamp() if at else None)


class UncheckedPodReporter:
    """Call `sync` in turn while this replica leads, and `reset` while it does not.

    recorder: None: a dry run, which only counts.
    tells_placements: whether pods that were bound well get an Event too.
    over_bound: pods that missed a bound when all were counted last; None: this replica does not lead.
    reflector: of the pods that are on a node; run it as a task.
    results: result → pods that were looked at.
    """

    def __init__(
        self,
        client: ApiClient,
        inputs: Callable[[], DecisionInputs],
        recorder: EventRecorder | None,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
        *,
        tells_placements: bool = False,
    ) -> None:
        self.reflector = Reflector(client, ListOptions(PODS, field_selector=BOUND_PODS), BoundPodObject)
        self.results: Counter[BoundResult] = Counter()
        self._inputs, self._recorder, self._clock, self._wall_clock = inputs, recorder, clock, wall_clock
        self._tells_placements = tells_placements
        self._memory = SweepMemory()
        self.over_bound: int | None = None
        self._count_at = float("-inf")

    def reset(self) -> None:
        """Forgets everything, because another replica leads."""
        self._memory, self.over_bound, self._count_at = SweepMemory(), None, float("-inf")

    async def sync(self) -> None:
        """Looks at new pods, and records an Event for each that was bound unchecked."""
        pods = [each.bound for each in self.reflector.current.values() if each.bound]
        inputs, memory, now, unix = self._inputs(), self._memory, self._clock(), self._wall_clock()
        sweep = await run_in_daemon_thread(
            lambda: sweep_bound_pods(pods, inputs, memory, now, unix), "sweep bound pods"
        )
        self._memory = sweep.memory
        self.results.update(sweep.ended)
        for unchecked in sweep.unchecked if self._recorder else ():
            self._report(unchecked)
        for pod in sweep.kept if self._recorder and self._tells_placements else ():
            self._record(pod, "BoundKept", f"bound to node {pod.node}: {placement_reason(pod, inputs)}", warning=False)
        if now >= self._count_at:
            self._count_at = now + COUNT_INTERVAL_SECONDS
            self.over_bound = await run_in_daemon_thread(
                lambda: pods_over_bounds(pods, inputs), "count pods over bounds"
            )

    def families(self) -> Iterator[Metric]:
        """For metrics."""
        looked_at = CounterMetricFamily(
            "leadsman_controller_bound_pods",
            "Pods with a delay bound that were looked at after they were bound; unchecked: bound against it.",
            labels=["result"],
        )
        for result in BoundResult:
            looked_at.add_metric([result.value], self.results[result])
        yield looked_at
        if self.over_bound is not None:
            yield GaugeMetricFamily(
                "leadsman_bounded_pods_over_bound",
                "Pods with a delay bound whose node misses it now, as this leader sees them.",
                self.over_bound,
            )

    def _report(self, unchecked: UncheckedPod) -> None:
        note = (
            f"bound to node {unchecked.pod.node} against its delay bound: {unchecked.why}; no extender was asked, or"
            " kube-scheduler skipped it (ignorable); delete the pod once an extender is ready to have it placed again"
        )
        self._record(unchecked.pod, "BoundUnchecked", note, warning=True)

    def _record(self, pod: BoundPod, reason: str, note: str, *, warning: bool) -> None:
        """The Event's name is the same on every replica: a new leader writes it no second time."""
        assert self._recorder
        info = pod.info
        about = ObjectReference("Pod", info.namespace, info.name, info.uid)
        kind = reason.removeprefix("Bound").lower()
        name = f"{info.name[:200].rstrip('.-')}.{kind}.{info.uid[:8]}"
        note = note.encode()[:LONGEST_NOTE_BYTES].decode(errors="ignore")
        self._recorder.record(about, reason, note, "Schedule", warning=warning, name=name)
