"""Pods that we refused are tried again at once when the cause goes, not after kube-scheduler's five minutes.

kube-scheduler looks at a refused pod again when a node's label or annotation changes (seen on 1.36.2). So for each
Pending pod that we can have refused we ask what the extender would answer now, with the same code on the same inputs.
Where a node passes that did not before, that node's annotation is touched. One touch wakes every refused pod.

The extender's own view may lag ours by a moment, and then refuses once more: so a gain is followed by two more touches.
"""

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime

from msgspec import Struct

from leadsman.decision.decide import filter_nodes
from leadsman.decision.delay.bounds import DELAY_LABEL_PREFIX
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import CandidateNodes, PodInfo
from leadsman.decision.telemetry.pod_policy import POLICY_LABEL as POLICY_LABEL
from leadsman.decision.workloads import workload_name
from leadsman.kube import objects
from leadsman.kube.client import ApiClient
from leadsman.kube.errors import ApiError, NotFound
from leadsman.kube.names import DOMAIN, RETRIED_AT_ANNOTATION, without_deprecated
from leadsman.kube.object_changes import ObjectKey
from leadsman.kube.resources import NODES
from leadsman.runtime.problem_log import ProblemLog
from leadsman.runtime.token_bucket import TokenBucket

_log = logging.getLogger(__name__)

TOUCH_DELAYS_SECONDS = (0.0, 5.0, 30.0)
"""When a gain is told to kube-scheduler, after it was seen."""

MAX_SIGNATURES_PER_SYNC = 200
"""Of pods that are looked at in one round; the others wait for the next."""

EXTENDER_KEY_PREFIXES = (DELAY_LABEL_PREFIX, f"{DOMAIN}/", POLICY_LABEL)


class PodSignature(Struct, frozen=True):
    """What pods must share to be answered alike. name: a pod's own, where nobody controls it."""

    namespace: str
    name: str
    labels: tuple[tuple[str, str], ...]
    annotations: tuple[tuple[str, str], ...]
    workload: str = ""

    @property
    def pod(self) -> PodInfo:
        return PodInfo(self.namespace, self.name, "", dict(self.labels), dict(self.annotations), self.workload)

    @property
    def uses_extender(self) -> bool:
        """Whether something on it is only there for us."""
        return any(key.startswith(EXTENDER_KEY_PREFIXES) for key, _ in (*self.labels, *self.annotations))


class SignatureState(Struct):
    """Of a kind: the nodes that passed last, and when touches are due, and on which node."""

    passing_nodes: frozenset[str] = frozenset()
    touch_node: str = ""
    touch_times: tuple[float, ...] = ()


class RequeueBook:
    """Which node is to be touched now. No I/O."""

    def __init__(self) -> None:
        self._states: dict[PodSignature, SignatureState] = {}
        self._problem = ProblemLog(
            _log,
            "controller cannot filter nodes for waiting pods; it requeues none of that kind",
            "controller filters nodes for waiting pods again",
            logging.ERROR,
        )

    def observe(self, pods: Iterable[objects.Pod], nodes: Sequence[str], inputs: DecisionInputs) -> None:
        """Kinds that are gone are forgotten. A new kind that asks for us counts as refused everywhere until now."""
        kinds = dict.fromkeys(pod_signature(pod.metadata) for pod in pods if is_unschedulable(pod))
        candidates = CandidateNodes.of(nodes)
        before = self._states
        looked = sorted(kinds, key=lambda kind: kind in before and bool(before[kind].touch_times))[
            :MAX_SIGNATURES_PER_SYNC
        ]
        self._states = {kind: before.get(kind, SignatureState()) for kind in kinds}
        for kind in looked:
            known, kept = self._states[kind], self._passing_nodes(kind, candidates, inputs)
            before_that = known.passing_nodes if kind in before or kind.uses_extender else kept
            if gained := sorted(kept - before_that):
                known.touch_node = gained[0]
                known.touch_times = tuple(inputs.now + seconds for seconds in TOUCH_DELAYS_SECONDS)
            elif known.touch_node not in kept:
                known.touch_times = ()
            known.passing_nodes = kept

    def _passing_nodes(self, kind: PodSignature, nodes: Sequence[str], inputs: DecisionInputs) -> frozenset[str]:
        """A plugin that fails costs these pods their wake-up, and not the nodes their labels."""
        try:
            return frozenset(filter_nodes(kind.pod, nodes, inputs).kept)
        except Exception as error:
            self._problem.report(error, traceback=True)
            return self._states[kind].passing_nodes

    def next_touch(self, now: float) -> str:
        """A node to touch; "" for none. It stands for all that are due."""
        waiting = [known for known in self._states.values() if known.touch_times and known.touch_times[0] <= now]
        for known in waiting:
            known.touch_times = tuple(at for at in known.touch_times if at > now)
        return waiting[0].touch_node if waiting else ""


class Requeuer:
    """Call `round` in turn. rate: of touches. For metrics: touched."""

    def __init__(
        self,
        client: ApiClient | None,
        pods: Callable[[], Mapping[ObjectKey, objects.Pod]],
        nodes: Callable[[], Sequence[str]],
        inputs: Callable[[], DecisionInputs],
        rate: TokenBucket,
        wall_clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ):
        self.touched, self.sync_seconds = 0, 0.0
        self._client, self._pods, self._nodes, self._inputs = client, pods, nodes, inputs
        self._rate, self._wall_clock, self._book = rate, wall_clock, RequeueBook()
        self._pending_node = ""
        self._problem = ProblemLog(
            _log,
            "controller cannot annotate a node so that kube-scheduler tries refused pods again; it retries",
            "controller annotates nodes again",
        )

    async def sync(self) -> None:
        began, inputs = time.perf_counter(), self._inputs()
        self._book.observe(self._pods().values(), self._nodes(), inputs)
        self._pending_node = self._book.next_touch(inputs.now) or self._pending_node
        self.sync_seconds = time.perf_counter() - began
        if self._pending_node and self._rate.try_take():
            node, self._pending_node = self._pending_node, ""
            await self._touch(node)

    def reset(self) -> None:
        """When somebody else leads."""
        self._book, self._pending_node = RequeueBook(), ""

    async def _touch(self, node: str) -> None:
        if self._client is None:
            _log.info("dry run: would annotate node %s so that kube-scheduler tries refused pods again", node)
            return
        annotations = without_deprecated({RETRIED_AT_ANNOTATION: f"{self._wall_clock():%Y-%m-%dT%H:%M:%S.%fZ}"})
        try:
            await self._client.patch(NODES.path("", node), {"metadata": {"annotations": annotations}})
            self.touched += 1
            self._problem.clear()
            _log.info("annotated node %s so that kube-scheduler tries refused pods again", node)
        except NotFound:
            return
        except ApiError as error:
            self._pending_node = node
            self._problem.report(error)


def is_unschedulable(pod: objects.Pod) -> bool:
    """Tried and found unschedulable."""
    return pod.unscheduled_reason == "Unschedulable" and not pod.terminating and not pod.spec.node_name


def pod_signature(metadata: objects.ObjectMeta) -> PodSignature:
    owner = metadata.controller
    whose = workload_name(owner.kind, owner.name, metadata.labels) if owner else ""
    name = owner.name if owner else metadata.name
    annotations = {key: value for key, value in metadata.annotations.items() if key.startswith(EXTENDER_KEY_PREFIXES)}
    return PodSignature(metadata.namespace, name, _sorted(metadata.labels), _sorted(annotations), whose)


def _sorted(of: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(of.items()))
