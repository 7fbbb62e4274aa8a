"""Looks for a node that may take a pod, and for the one other pod to move so that a pending one finds room."""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from leadsman.cluster.model import Cluster
from leadsman.cluster.pod import ClusterPod
from leadsman.cluster.resources import Resources
from leadsman.cluster.scheduling import Feasibility
from leadsman.planning.moves.bounds import NOWHERE_ELSE, Placed, SupposedBounds

WhyNot = Callable[[ClusterPod], str]


class RoomMove(NamedTuple):
    """`moved` goes to `to_node`, and the pending pod takes its place."""

    moved: ClusterPod
    to_node: str


class Search:
    """One cluster and its bounds.

    is_barred: owner UID and node → whether the owner's pods must not go there, because one was moved away.
    avoid: nodes that are dead or suspect.
    """

    def __init__(
        self,
        cluster: Cluster,
        bounds: SupposedBounds,
        is_barred: Callable[[str, str], bool],
        avoid: frozenset[str] = frozenset(),
    ) -> None:
        self._cluster, self._bounds, self._is_barred, self._avoid = cluster, bounds, is_barred, avoid

    def places(self, pod: ClusterPod) -> Iterator[str]:
        """The nodes that may take the running pod so that no bound is lost, those with most free memory first."""
        return self._places(pod, self._cluster, NOWHERE_ELSE)

    def new_place(self, pod: ClusterPod) -> str:
        """The first of `places`; "": there is none."""
        return next(self.places(pod), "")

    def is_place(self, pod: ClusterPod, node: str) -> bool:
        """Whether the node may take the running pod so that no bound is lost."""
        return node in self._places(pod, self._cluster, NOWHERE_ELSE, node)

    def fits(self, pod: ClusterPod) -> bool:
        """Whether some node can take the pending pod as everything is."""
        refused = self._bounds.refusals(pod)
        return any(node not in refused and node not in self._avoid for node in Feasibility(self._cluster, pod).nodes)

    def room_for(self, pending: ClusterPod, why_not: WhyNot) -> RoomMove | None:
        """The cheapest move: of the pod with the lowest priority, then the smallest. None: no single move does it."""
        for moved in sorted(self._movers(pending, why_not), key=self._cost):
            for node in self._landings(pending, moved):
                return RoomMove(moved, node)
        return None

    def is_room_move(self, pending: ClusterPod, move: RoomMove) -> bool:
        """Whether the move makes room for the pending pod so that no bound is lost."""
        return move.to_node in self._landings(pending, move.moved, move.to_node)

    def _movers(self, pending: ClusterPod, why_not: WhyNot) -> Iterator[ClusterPod]:
        """The pods without which their node may have room for the pending one."""
        refused = self._bounds.refusals(pending)
        for name in self._cluster.nodes:
            if name in self._avoid:
                continue
            free = self._cluster.free(name)
            for pod in self._cluster.pods_on(name):
                # Where the pending pod is bound to the workload of the one that moves, its bounds change by the move.
                can_be_kept = name not in refused or self._bounds.is_bound_to(pending, pod)
                if can_be_kept and pending.requests.fits(free + pod.requests) and not why_not(pod):
                    yield pod

    def _landings(self, pending: ClusterPod, moved: ClusterPod, only: str = "") -> Iterator[str]:
        place = moved.node
        without = Feasibility(self._cluster.without_pod(moved.uid), pending)
        if without.allowed[without.names.index(place)]:
            yield from self._places(moved, self._cluster.with_pod(pending, place), {pending.uid: place}, only)

    def _places(self, pod: ClusterPod, cluster: Cluster, others: Placed, only: str = "") -> Iterator[str]:
        """The nodes that may take the pod, those with most free memory first. only: the one that is asked about."""
        refused = self._bounds.refusals(pod, others)
        feasible = [node for node in Feasibility(cluster, pod).nodes if node not in refused]
        for node in sorted(feasible, key=lambda name: (-cluster.free(name).memory_bytes, name)):
            barred = node == pod.node or node in self._avoid or self._is_barred(pod.owner_uid, node)
            if (not only or node == only) and not barred and not self._bounds.lost_bound({**others, pod.uid: node}):
                yield node

    def _cost(self, pod: ClusterPod) -> tuple[int, float, str]:
        """Priority, and the pod's size as a share of its node, summed over resources."""
        node = self._cluster.nodes[pod.node]
        shares = (amount / max(node.allocatable.amount(name), 1) for name, amount in pod.requests.items())
        return pod.priority, sum(shares), pod.uid


def free_part(requests: Resources, free: Resources) -> Resources | None:
    """What of the requests is free already, as the requests of a pod that holds it; None: nothing that a pod can hold.

    A pod that holds room takes a pod slot itself.
    """
    if free.pods < 1:
        return None
    amounts: Mapping[str, int] = {
        name: min(amount, free.amount(name)) for name, amount in requests.items() if name != "pods"
    }
    held = {name: amount for name, amount in amounts.items() if amount > 0}
    if not held:
        return None
    return Resources(held.pop("cpu", 0), held.pop("memory", 0), 1, held)
