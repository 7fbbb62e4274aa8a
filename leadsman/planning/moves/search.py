"""Looks for a node that may take a pod, and for the one other pod to move so that a pending one finds room."""

from collections.abc import Callable, Iterator, Mapping

from leadsman.cluster.model import Cluster, ClusterPod
from leadsman.cluster.quotas import counting_quotas, quota_refusals
from leadsman.cluster.resources import Resources
from leadsman.cluster.scheduling import Feasibility
from leadsman.kube.names import PLACEHOLDER_NAMESPACE, PLACEHOLDER_PRIORITY_CLASS, SAFE_TO_EVICT_ANNOTATION
from leadsman.planning.situation import Situation, references, workload_key

# Why a pod is never moved, and why the API server would refuse its move now. Each "no" is a sentence for an Event.

MADE_AGAIN = frozenset({"ReplicaSet", "ReplicationController", "StatefulSet"})
"""Owners that make a new pod for one that was evicted, and lose nothing by it."""

SYSTEM_CRITICAL_PRIORITY = 2_000_000_000


def why_never_moved(pod: ClusterPod) -> str:
    """Says why the pod is never moved; "": it may be."""
    if pod.mirror:
        return "it is a static pod, which only its own kubelet runs"
    if not pod.owner_uid:
        return "it has no controller that would make it again"
    if pod.owner_kind not in MADE_AGAIN:
        return f"its owner is a {pod.owner_kind}, whose pods are not moved"
    if pod.owner_kind == "StatefulSet" and pod.local_volumes:
        return "it is a StatefulSet's pod and keeps data on its node"
    if pod.annotations.get(SAFE_TO_EVICT_ANNOTATION) == "false":
        return f'annotation {SAFE_TO_EVICT_ANNOTATION} is "false"'
    if pod.priority >= SYSTEM_CRITICAL_PRIORITY:
        return "it is critical to the system"
    return ""


def why_not_evictable(pod: ClusterPod, cluster: Cluster) -> str:
    """Says why the Eviction API would refuse the pod now; "": it would evict it.

    pkg/registry/core/pod/storage/eviction.go: of a pod that is pending no budget is asked. One that is not ready may be
    evicted in any case where its budget says so, or has as many healthy pods as it wants.
    """
    budgets = () if pod.phase == "Pending" else cluster.budgets_of(pod)
    if len(budgets) > 1:
        names = ", ".join(sorted(budget.name for budget in budgets))
        return f"several PodDisruptionBudgets cover it ({names}), and the Eviction API refuses that"
    for budget in budgets:
        enough = 0 < budget.desired_healthy <= budget.current_healthy
        if not pod.ready and (budget.unhealthy_always or (budget.observed and enough)):
            continue
        if not budget.observed or budget.disruptions_allowed < 1:
            return f"PodDisruptionBudget {budget.name} allows no eviction"
    return ""


def why_quota_refuses(pod: ClusterPod, cluster: Cluster) -> str:
    """Tells which ResourceQuota would refuse the pod that holds its room, or the one that takes its place; "": none
    would.

    The new pod is made while the old one ends, and both count until that is gone; of a StatefulSet it comes after it.
    """
    holding = ClusterPod(
        "",
        PLACEHOLDER_NAMESPACE,
        "",
        requests=pod.requests,
        priority_class=PLACEHOLDER_PRIORITY_CLASS,
        has_deadline=True,
    )
    if reasons := quota_refusals(cluster, holding):
        return f"in namespace {PLACEHOLDER_NAMESPACE}, where its room is held, {reasons[0]}"
    beside = pod.owner_kind != "StatefulSet"
    for quota, usage in counting_quotas(cluster, pod):
        for resource, asked in usage.items():
            left = quota.hard[resource] - quota.used.get(resource, 0)
            if left < (asked if beside else 0):
                while_it_ends = " while it ends" if beside else ""
                return f"quota {quota.name} leaves {left} of {resource}{while_it_ends}, and its new pod needs {asked}"
    return ""


def why_not_moved(pod: ClusterPod, cluster: Cluster) -> str:
    """Says why the pod cannot be moved now; "": it can."""
    return why_never_moved(pod) or why_not_evictable(pod, cluster) or why_quota_refuses(pod, cluster)


def is_bystander(pod: ClusterPod) -> bool:
    """Tells whether the pod only holds room, or ends anyway."""
    return pod.terminating or pod.placeholder is not None or pod.held_for is not None


WhyNot = Callable[[ClusterPod], str]


class Search:
    """Looks in one situation.

    is_barred: owner UID and node → whether the owner's pods must not go there, because one was moved away.
    avoid: nodes that are dead or suspect.
    """

    def __init__(
        self, situation: Situation, is_barred: Callable[[str, str], bool], avoid: frozenset[str] = frozenset()
    ) -> None:
        self._situation, self._cluster = situation, situation.cluster
        self._is_barred, self._avoid = is_barred, avoid

    def places(self, pod: ClusterPod, only: str = "", successor: ClusterPod | None = None) -> Iterator[str]:
        """Yields the nodes that may take the running pod so that no bound is lost, those with most free memory first.

        only: the node that is asked about; "": all. successor: the pod that takes its place; None: none does.
        """
        situation, moved = self._situation, dict[str, str]()
        if successor is not None:
            situation, moved = situation.with_pod(successor, pod.node), {successor.uid: pod.node}
        free = situation.cluster.free
        for node in sorted(situation.verdict(pod).nodes, key=lambda name: (-free(name).memory_bytes, name)):
            barred = node == pod.node or node in self._avoid or self._is_barred(pod.owner_uid, node)
            asked = (not only or node == only) and not barred
            if asked and not self._situation.lost_bound({**moved, pod.uid: node}):
                yield node

    def fits(self, pod: ClusterPod) -> bool:
        """Tells whether some node can take the pending pod as everything is."""
        return any(node not in self._avoid for node in self._situation.verdict(pod).nodes)

    def room_for(self, pending: ClusterPod, why_not: WhyNot) -> tuple[ClusterPod, str] | None:
        """Returns the pod that is moved so that the pending one takes its place, and where it goes: the pod with the
        lowest priority, then the smallest. None: no single move does it."""
        for moved in sorted(self._movers(pending, why_not), key=self._cost):
            for node in self.landings(pending, moved):
                return moved, node
        return None

    def _movers(self, pending: ClusterPod, why_not: WhyNot) -> Iterator[ClusterPod]:
        """Yields the pods without which their node may have room for the pending one."""
        refused, bound_to = self._situation.bound_refusals(pending), set(references(pending))
        for name in self._cluster.nodes:
            if name in self._avoid:
                continue
            free = self._cluster.free(name)
            for pod in self._cluster.pods_on(name):
                # Where the pending pod is bound to the workload of the one that moves, its bounds change by the move.
                can_be_kept = name not in refused or workload_key(pod) in bound_to
                if can_be_kept and pending.requests.fits(free + pod.requests) and not why_not(pod):
                    yield pod

    def landings(self, pending: ClusterPod, moved: ClusterPod, only: str = "") -> Iterator[str]:
        """Yields where a pod may go that makes room for the pending one, so that no bound is lost."""
        place = moved.node
        if Feasibility(self._cluster.without_pod(moved.uid), pending).refusals(place):
            return
        lands_first = self._situation.verdict(moved).nodes
        for node in self.places(moved, only, pending):
            # Again, as where the moved pod lands may decide whether the pending one may take its place.
            if node in lands_first and not self._situation.with_pod(moved, node).verdict(pending).why_not(place):
                yield node

    def _cost(self, pod: ClusterPod) -> tuple[int, float, str]:
        """Returns the pod's priority, and its size as a share of its node, summed over resources."""
        node = self._cluster.nodes[pod.node]
        shares = (amount / max(node.allocatable.amount(name), 1) for name, amount in pod.requests.items())
        return pod.priority, sum(shares), pod.uid


def free_part(requests: Resources, free: Resources) -> Resources | None:
    """Returns what of the requests is free already, as the requests of a pod that holds it; None: nothing that a pod
    can hold.

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
