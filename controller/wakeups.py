"""Pods that we refused are tried again at once when the cause goes, not after kube-scheduler's five minutes.

kube-scheduler looks at a refused pod again when a node's label or annotation changes (seen on 1.36.2). So for each
Pending pod that we can have refused we ask what the extender would answer now, with the same code on the same facts.
Where a node passes that did not before, that node's annotation is touched. One touch wakes every refused pod.

The extender's own view may lag ours by a moment, and then refuses once more: so a gain is followed by two more touches.
"""

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime

from msgspec import Struct

from apiserver import objects
from apiserver.changes import Key
from apiserver.errors import ApiError, NotFound
from apiserver.requests import Client
from apiserver.resources import NODES
from controller.rate import Rate
from decision.decide import judge
from decision.model import Candidates, Facts, Pod
from decision.places import workload
from decision.telemetry.link import LABEL as POLICY_LABEL

_log = logging.getLogger(__name__)

ANNOTATION = "leadsman/retried-at"

AGAIN_SECONDS = (0.0, 5.0, 30.0)
"""When a gain is told to kube-scheduler, after it was seen."""

MOST_KINDS = 200
"""Of pods that are looked at in one round; the others wait for the next."""

OURS = ("delay_", "leadsman", POLICY_LABEL)


class Kind(Struct, frozen=True):
    """What pods must share to be answered alike. name: a pod's own, where nobody controls it."""

    namespace: str
    name: str
    labels: tuple[tuple[str, str], ...]
    annotations: tuple[tuple[str, str], ...]
    workload: str = ""

    @property
    def pod(self) -> Pod:
        return Pod(self.namespace, self.name, "", dict(self.labels), dict(self.annotations), self.workload)

    @property
    def asks(self) -> bool:
        """Whether something on it is only there for us."""
        return any(key.startswith(OURS) for key, _ in (*self.labels, *self.annotations))


class Known(Struct):
    """Of a kind: the nodes that passed last, and when touches are due, and on which node."""

    kept: frozenset[str] = frozenset()
    node: str = ""
    due: tuple[float, ...] = ()


class Book:
    """Which node is to be touched now. No I/O."""

    def __init__(self) -> None:
        self._known: dict[Kind, Known] = {}
        self._failed = False

    def look(self, pods: Iterable[objects.Pod], nodes: Sequence[str], facts: Facts) -> None:
        """Kinds that are gone are forgotten. A new kind that asks for us counts as refused everywhere until now."""
        kinds = dict.fromkeys(kind_of(pod.metadata) for pod in pods if refusable(pod))
        candidates = Candidates.of(nodes)
        before = self._known
        looked = sorted(kinds, key=lambda kind: kind in before and bool(before[kind].due))[:MOST_KINDS]
        self._known = {kind: before.get(kind, Known()) for kind in kinds}
        for kind in looked:
            known, kept = self._known[kind], self._kept(kind, candidates, facts)
            before_that = known.kept if kind in before or kind.asks else kept
            if gained := sorted(kept - before_that):
                known.node = gained[0]
                known.due = tuple(facts.now + seconds for seconds in AGAIN_SECONDS)
            elif known.node not in kept:
                known.due = ()
            known.kept = kept

    def _kept(self, kind: Kind, nodes: Sequence[str], facts: Facts) -> frozenset[str]:
        """A plugin that fails costs these pods their wake-up, and not the nodes their labels."""
        try:
            return frozenset(judge(kind.pod, nodes, facts).kept)
        except Exception:
            if not self._failed:
                _log.exception("pods like %s/%s cannot be judged", kind.namespace, kind.name)
            self._failed = True
            return self._known[kind].kept

    def due(self, now: float) -> str:
        """A node to touch; "" for none. It stands for all that are due."""
        waiting = [known for known in self._known.values() if known.due and known.due[0] <= now]
        for known in waiting:
            known.due = tuple(at for at in known.due if at > now)
        return waiting[0].node if waiting else ""


class Waker:
    """Call `round` in turn. rate: of touches. For metrics: touched."""

    def __init__(
        self,
        client: Client | None,
        pods: Callable[[], Mapping[Key, objects.Pod]],
        nodes: Callable[[], Sequence[str]],
        facts: Callable[[], Facts],
        rate: Rate,
        wall_clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ):
        self.touched, self.seconds = 0, 0.0
        self._client, self._pods, self._nodes, self._facts = client, pods, nodes, facts
        self._rate, self._wall_clock, self._book = rate, wall_clock, Book()
        self._waiting = ""

    async def round(self) -> None:
        began, facts = time.perf_counter(), self._facts()
        self._book.look(self._pods().values(), self._nodes(), facts)
        self._waiting = self._book.due(facts.now) or self._waiting
        self.seconds = time.perf_counter() - began
        if self._waiting and self._rate.take():
            node, self._waiting = self._waiting, ""
            await self._touch(node)

    def forget(self) -> None:
        """When somebody else leads."""
        self._book, self._waiting = Book(), ""

    async def _touch(self, node: str) -> None:
        if self._client is None:
            _log.info("would touch node %s, so that refused pods are tried again", node)
            return
        annotations = {ANNOTATION: f"{self._wall_clock():%Y-%m-%dT%H:%M:%S.%fZ}"}
        try:
            await self._client.patch(NODES.path("", node), {"metadata": {"annotations": annotations}})
            self.touched += 1
            _log.info("touched node %s, so that refused pods are tried again", node)
        except NotFound:
            return
        except ApiError as error:
            self._waiting = node
            _log.warning("node %s cannot be touched: %s: %s", node, type(error).__name__, error)


def refusable(pod: objects.Pod) -> bool:
    """Tried and found unschedulable."""
    return pod.unscheduled_reason == "Unschedulable" and not pod.terminating and not pod.spec.node_name


def kind_of(metadata: objects.Metadata) -> Kind:
    owner = metadata.controller
    whose = workload(owner.kind, owner.name, metadata.labels) if owner else ""
    name = owner.name if owner else metadata.name
    annotations = {key: value for key, value in metadata.annotations.items() if key.startswith(OURS)}
    return Kind(metadata.namespace, name, _sorted(metadata.labels), _sorted(annotations), whose)


def _sorted(of: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(of.items()))
