"""A cluster with kube-scheduler, alone or with two extenders and a controller, and rounds of pods on it."""

from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from msgspec import Struct

from leadsman.testbed.etcd import Etcd
from tests.leadsman_process import LeadsmanProcess
from tests.testbed.paper_cluster import CONTROLLER, EXTENDER
from tests.whole.devices.device_cluster import VF, DeviceCluster, Reports
from tests.whole.devices.extenders_in_turn import ExtendersInTurn

if TYPE_CHECKING:
    from tests.whole.conftest import Start, Until

NODE = "edge-1"

RETRIED_SECONDS = 240.0
"""For a refused pod to be tried again: less than the 300 s after which kube-scheduler alone does so."""

SETTLE_SECONDS = 600.0
"""For a round to end. It takes a second; under load, where etcd misses the 100 ms that a reservation may take to
be withdrawn, as long as such reservations live: 140 s each."""


class Round(Struct, frozen=True):
    """Pods that come at once.

    devices, bandwidth: what each asks.
    room: how many of them fit.
    room_alone: how many kube-scheduler alone takes to fit, by what it counts.
    """

    pods: int
    devices: dict[str, int]
    bandwidth: str
    room: int
    room_alone: int


class ScheduledCluster:
    """What runs in a test: a node, kube-scheduler, and the extenders that it asks in turn, if any."""

    def __init__(self, stack: ExitStack, start: "Start", until: "Until", etcd: Etcd, cluster: DeviceCluster) -> None:
        self._stack, self._start, self._until, self._etcd = stack, start, until, etcd
        self._policy = cluster.api.folder.with_name("policy.yaml")
        self._number, self._nodes = 0, 1
        self.cluster = cluster
        self.service: ExtendersInTurn | None = None

    def with_leadsman(self, reported: dict[str, float], nodes: Sequence[str] = (NODE,)) -> ExtendersInTurn:
        """Two extenders and a controller, as docs/devices.md has them installed, and kube-scheduler. reported: of each
        node's links, which may be altered."""
        self._policy.write_text(f"devices: {{virtual_functions: [{VF}]}}\n")
        self._nodes = len(nodes)
        self._stack.enter_context(Reports(self._etcd, dict.fromkeys(nodes, reported)))
        self.service = self._stack.enter_context(ExtendersInTurn([self.extender(), self.extender()]))
        controller = self._start("controller", *self._flags(CONTROLLER))
        self._until(lambda: controller.get("/readyz")[0] == 200, "the controller is up", SETTLE_SECONDS)
        self.cluster.schedule(self.service.url)
        return self.service

    def extender(self) -> LeadsmanProcess:
        """One more, ready."""
        one = self._start("extender", *self._flags(EXTENDER))
        self._until(lambda: one.get("/readyz")[0] == 200, "an extender is up", SETTLE_SECONDS)
        fresh = 'leadsman_state_nodes{freshness="fresh"}'
        self._until(lambda: one.metric(fresh) == self._nodes, "the reports are fresh", SETTLE_SECONDS)
        return one

    def _flags(self, account: str) -> list[str]:
        kubeconfig = self.cluster.api.kubeconfig(account)
        return ["--devices", "--policy", str(self._policy), "--kubeconfig", str(kubeconfig)]

    def place(self, each: Round) -> int:
        """How many are placed in the end, which must be as many as fit. Pods that the extenders refused were refused
        again since."""
        room = each.room if self.service else each.room_alone
        for number in range(each.pods):
            self.cluster.asking_pod(f"pod-{self._number}-{number}", each.devices, each.bandwidth)
        self._number += 1
        try:
            self._until(
                lambda: len(self.cluster.bound()) >= room and not self.cluster.untried(),
                f"{room} pods are placed",
                SETTLE_SECONDS,
            )
            if self.service and each.room < each.room_alone:
                self._until_refused_again(self.service)
        finally:
            assert len(self.cluster.bound()) == room, self.cluster.reasons()
        return room

    def _until_refused_again(self, service: ExtendersInTurn) -> None:
        seen = len(service.filtered)
        self.cluster.annotate(NODE, str(seen))
        again = lambda: {pod["metadata"]["name"] for pod in self.cluster.waiting()} <= set(service.filtered[seen:])  # noqa: E731
        self._until(again, "the pods that wait are refused once more", SETTLE_SECONDS)

    def clear(self) -> None:
        """No pod is left, and the extenders know."""
        self.cluster.clear()
        self._until(lambda: not self.cluster.pods(), "the round's pods are gone", SETTLE_SECONDS)
        self._until(lambda: not self._pods_seen(), "the extenders see that they are gone", SETTLE_SECONDS)

    def _pods_seen(self) -> bool:
        extenders = self.service.extenders if self.service else ()
        return any(one.metric("leadsman_extender_device_pods") != 0 for one in extenders)
