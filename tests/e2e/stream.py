"""A stream of pods with delay bounds, while something is done to the cluster.

Only an extender that knows the delays places them all. The API server may be away meanwhile: a pod counts as sent once
the API server has taken it.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from http.client import HTTPException
from typing import Any

from msgspec import Struct

from leadsman.kube.names import BACKUP_ANNOTATION, DELAY_ANNOTATION
from tests.e2e.images import SANDBOX
from tests.e2e.rollout import Rollout
from tests.e2e.state_watch import StateWatch

PODS = "/api/v1/namespaces/default/pods"
REPORTS = "/apis/events.k8s.io/v1/namespaces/default/events?fieldSelector=reason%3DBoundUnchecked"
BOUND_WITHIN_SECONDS = 60.0
"""After the last pod was sent; a pod that is not bound by then is lost. kube-scheduler tries a refused one again."""

REPORTED_WITHIN_SECONDS = 60.0
"""After the last binding: the controller looks at a pod for 10 s, and another replica may have to lead first."""

DELETED_WITHIN_SECONDS = 60.0

MEASURED_WITHIN_SECONDS = 60.0
"""After a node's boot its delays are known; until then, and while it is lost, an extender that is new knows nothing."""

_MISSING = {"name": "missing", "configMap": {"name": "there-is-none"}}
"""Mounted, it keeps kubelets from starting what is only to be bound: they wait for no volume that nothing mounts."""


_AWAY = (OSError, HTTPException)
"""What a call raises while the API server is away, or breaks off."""


class Bound(Struct, frozen=True):
    """Says what a streamed pod asks for.

    among: `In` or `NotIn`, and a node. only: its node; "": it must be refused while delays to `known` are known.
    """

    delay: str
    among: tuple[str, str] | None
    only: str
    known: str = ""


def bounds(here: str, there: str) -> Sequence[Bound]:
    """For pods of which `here` is the only node. A node's delay to itself needs no state; one that was measured does.

    The last is refused because all delays to `there` are known to be longer. Where nothing is known, it is bound, as
    it asks: that is judged only while `there`, and the node that it went to, have been up for long enough, and no
    extender misses a node's report; and not if the one that decided kept that the delay was unknown.
    """
    return (
        Bound(f"node/{here}: 0", None, here),
        Bound(f"node/{there}: 50 all reject", ("In", here), here),
        Bound(f"node/{there}: 0.001 all accept", ("NotIn", there), "", there),
    )


class Streamed(Struct, frozen=True):
    """misplaced: bound elsewhere than on the node of their bound. lost: neither bound nor, where it must be, refused.
    reported: misplaced ones that the controller found, by its Event BoundUnchecked. first_misplaced: "" for none.
    longest_seconds: from creation to bound or refused. unknown: bound because, as the decision says, their delay was
    not known, though no report was missing just after.
    """

    sent: int
    misplaced: int
    lost: int
    longest_seconds: float
    reported: int = 0
    first_misplaced: str = ""
    unknown: int = 0


class Stream:
    """Sends pods of all bounds in turn, each deleted once it is where it belongs. scheduler: as they name it."""

    def __init__(self, rollout: Rollout, bounds: Sequence[Bound], rate: float, scheduler: str) -> None:
        self._rollout, self._cluster, self._api = rollout, rollout.cluster, rollout.cluster.api
        self._bounds, self._rate, self._scheduler = bounds, rate, scheduler
        self._created = dict[str, tuple[float, Bound]]()
        self._settled = dict[str, float]()
        self._misplaced, self._reported = dict[str, str](), set[str]()  # UID → what it asked and where it is; UIDs.
        self._unknown = 0
        self._stop, self._all_sent = threading.Event(), threading.Event()

    def during(self, disturb: Callable[[], None]) -> None:
        """Sends from a little before the disturbance to a little after it."""
        sender, watcher = threading.Thread(target=self._send), threading.Thread(target=self._watch)
        sender.start()
        watcher.start()
        try:
            disturb()
        finally:
            self._stop.set()
            sender.join()
            self._all_sent.set()  # Only now: the last pod may have been on its way.
            watcher.join()

    @property
    def streamed(self) -> Streamed:
        return Streamed(
            sent=len(self._created),
            misplaced=len(self._misplaced),
            reported=len(self._reported),
            lost=len(self._created) - len(self._settled),
            longest_seconds=max(tuple(self._settled.values()), default=0.0),  # Threads go on.
            first_misplaced=next(iter(tuple(self._misplaced.values())), ""),
            unknown=self._unknown,
        )

    def _send(self) -> None:
        began, tries = time.monotonic(), 0
        while not self._stop.is_set():
            tries += 1
            name = f"streamed-{tries:05d}"
            sent_at, bound = time.monotonic(), self._bounds[tries % len(self._bounds)]
            with contextlib.suppress(*_AWAY):
                self._api.call("POST", PODS, bounded_pod(name, bound, self._scheduler))
                self._created[name] = sent_at, bound
            self._stop.wait(max(0.0, began + tries / self._rate - time.monotonic()))

    def _watch(self) -> None:
        self._watch_bindings()
        self._watch_reports()
        self._delete_all()

    def _watch_bindings(self) -> None:
        """Until all are bound or refused, or BOUND_WITHIN_SECONDS after the last one was sent."""
        stopped_at = float("inf")
        while time.monotonic() < stopped_at + BOUND_WITHIN_SECONDS:
            with contextlib.suppress(*_AWAY):
                for pod in self._api.call("GET", f"{PODS}?labelSelector=streamed")["items"]:
                    self._see(pod)
            if self._all_sent.is_set():
                stopped_at = min(stopped_at, time.monotonic())
                if len(self._settled) == len(self._created):
                    break
            time.sleep(0.25)

    def _watch_reports(self) -> None:
        """Until the controller reported all that were misplaced, or REPORTED_WITHIN_SECONDS."""
        ends_at = time.monotonic() + REPORTED_WITHIN_SECONDS
        while self._reported < self._misplaced.keys() and time.monotonic() < ends_at:
            with contextlib.suppress(*_AWAY):
                reports = self._api.call("GET", REPORTS)["items"]
                self._reported = self._misplaced.keys() & {report["regarding"]["uid"] for report in reports}
            time.sleep(0.5)

    def _delete_all(self) -> None:
        """The next stream gives its pods the same names."""
        streamed, ends_at = f"{PODS}?labelSelector=streamed", time.monotonic() + DELETED_WITHIN_SECONDS
        while time.monotonic() < ends_at:
            with contextlib.suppress(*_AWAY):
                self._api.call("DELETE", f"{streamed}&gracePeriodSeconds=0")
                if not self._api.call("GET", streamed)["items"]:
                    return
            time.sleep(0.5)

    def _see(self, pod: Mapping[str, Any]) -> None:
        """A pod elsewhere stays until the controller had its time to find it."""
        name, node = pod["metadata"]["name"], pod["spec"].get("nodeName", "")
        if name in self._settled and pod["metadata"]["uid"] not in self._misplaced:
            self._delete(name)  # The API server was away when it was to go: an hour of that fills a node.
        if name in self._settled or name not in self._created:
            return
        sent_at, bound = self._created[name]
        if not node and (bound.only or not _is_refused(pod)):
            return
        self._settled[name] = time.monotonic() - sent_at
        if node == bound.only or (bound.known and self._may_take(pod["metadata"], node, bound.known)):
            self._delete(name)
        else:
            self._misplaced[pod["metadata"]["uid"]] = f"{bound.delay!r} on {node} {datetime.now(UTC):%T}"

    def _may_take(self, pod: Mapping[str, Any], *nodes: str) -> bool:
        """Whether the pod may take its node because the delay between the two is unknown."""
        if not self._cluster.have_been_up(nodes, MEASURED_WITHIN_SECONDS) or not StateWatch(self._cluster).is_whole():
            return True
        was_unknown = self._rollout.was_unknown(pod["name"], pod["uid"], nodes[0])
        self._unknown += was_unknown
        return was_unknown

    def _delete(self, name: str) -> None:
        with contextlib.suppress(*_AWAY):  # It is tried again as long as it is seen.
            self._api.call("DELETE", f"{PODS}/{name}?gracePeriodSeconds=0")


def _is_refused(pod: Mapping[str, Any]) -> bool:
    """Whether kube-scheduler found no node; an extender that it did not reach gives another reason."""
    return any(each.get("reason") == "Unschedulable" for each in pod["status"].get("conditions", []))


def bounded_pod(name: str, bound: Bound, scheduler: str) -> dict[str, object]:
    """That is never started."""
    container = {
        "name": "main",
        "image": SANDBOX,
        "resources": {"requests": {"cpu": "1m", "memory": "4Mi"}},
        "volumeMounts": [{"name": _MISSING["name"], "mountPath": "/missing"}],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "labels": {"streamed": ""},
            "annotations": {DELAY_ANNOTATION: bound.delay, BACKUP_ANNOTATION: "none"},
        },
        "spec": {
            "schedulerName": scheduler,
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "containers": [container],
            "volumes": [_MISSING],
            "affinity": _affinity(*bound.among) if bound.among else {},
        },
    }


def _affinity(operator: str, node: str) -> dict[str, object]:
    expression = {"key": "kubernetes.io/hostname", "operator": operator, "values": [node]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
