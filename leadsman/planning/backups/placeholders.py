"""Plans the placeholder pods that hold what a backup plan reserves: which to create, to resize and to delete.

A node's reserve asks for a pod slot for each pod that may fall there, so as many placeholders hold it. A node that
lacks room gets a placeholder of what is missing, beside those that it has: there is never a moment without them. One is
deleted only when the others, bound and of the size that the API server confirms, hold the reserve without it. A pod is
covered once placeholders hold the room that it needs.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from hashlib import blake2b

from msgspec import Struct

from leadsman.cluster.constraints import Toleration
from leadsman.cluster.model import Cluster, ClusterPod
from leadsman.cluster.resources import NOTHING, ZERO, Resources
from leadsman.planning.backups.backup_plan import BackupPlan, Uncovered
from leadsman.published.self_healing import PodBackup

RESIZABLE = frozenset({"cpu", "memory"})
"""Says what `pods/resize` can change (KEP-1287)."""

LONGEST_LABEL_VALUE = 63

LEAST_MEMORY_BYTES = 1 << 20
"""Each placeholder requests at least this. One that requests nothing is BestEffort, and its class can never change
(KEP-1287)."""

SHRINK_SHARE = 0.1
"""A placeholder is made smaller when at least this share of the node's reserve is held for nothing: less is not worth
a write."""


class CreatePlaceholder(Struct, frozen=True):
    """Create a placeholder of this size on the node. tolerations: of all pods whose backup is there."""

    node: str
    requests: Resources
    tolerations: tuple[Toleration, ...]
    reason: str


class ResizePlaceholder(Struct, frozen=True):
    """Change what the placeholder with this UID requests to `requests`."""

    uid: str
    namespace: str
    name: str
    requests: Resources
    reason: str


class DeletePlaceholder(Struct, frozen=True):
    """Delete the placeholder with this UID."""

    uid: str
    namespace: str
    name: str
    reason: str


_RELEASED = "the room is released for a pod whose node is dead"

PlaceholderAction = CreatePlaceholder | ResizePlaceholder | DeletePlaceholder


def node_label(node: str) -> str:
    """Returns the value of the placeholders' label for a node: its name, or a hash of one too long for a label."""
    return node if len(node) <= LONGEST_LABEL_VALUE else blake2b(node.encode(), digest_size=16).hexdigest()


def placeholders_by_node(cluster: Cluster) -> Mapping[str, Sequence[ClusterPod]]:
    """Maps each node to the placeholders that are for it, bound or not yet; without those that are being deleted.

    Those of a node that is not in the cluster stand under their label.
    """
    names = {node_label(node): node for node in cluster.nodes}
    found: dict[str, list[ClusterPod]] = {}
    for pod in cluster.pods.values():
        if (label := pod.placeholder) is not None and not pod.terminating:
            found.setdefault(names.get(label, label), []).append(pod)
    return found


def held_by(placeholders: Iterable[ClusterPod]) -> Resources:
    """Returns what the placeholders that are bound hold together."""
    total = ZERO
    for pod in placeholders:
        if pod.node:
            total += pod.requests
    return total


def plan_placeholders(cluster: Cluster, plan: BackupPlan, *, resize: bool) -> list[PlaceholderAction]:
    """Returns what to do so that every node holds its reserve, by node.

    resize: whether the API server offers `pods/resize`.
    """
    existing = placeholders_by_node(cluster)
    actions: list[PlaceholderAction] = []
    for node in sorted(existing.keys() | plan.reserves.keys()):
        reserve, there = plan.reserves.get(node, ZERO), existing.get(node, ())
        if node not in cluster.nodes:
            actions += (_delete(pod, f"node {node} is gone") for pod in there)
        elif missing := not_held(reserve, there):
            backups = (uid for uid, backup in plan.backups.items() if backup.node == node and uid in cluster.pods)
            tolerations = dict.fromkeys(each for uid in backups for each in cluster.pods[uid].constraints.tolerations)
            actions += _grow(node, missing, there, tuple(tolerations), resize=resize)
        else:
            actions += _shrink(reserve, there, resize=resize)
    return actions


def plan_release(placeholders: Sequence[ClusterPod], requests: Resources, *, resize: bool) -> list[PlaceholderAction]:
    """Frees at least `requests` of what these placeholders of one node hold, with as little else as possible.

    With `resize` one goes for the pod slot and others are made smaller for the rest. Without it whole ones go, and what
    that frees too much is held again by the next plan.
    """
    bound = sorted((pod for pod in placeholders if pod.node), key=lambda pod: (pod.requests.memory_bytes, pod.name))
    if resize and len(bound) > 1:
        first, *others = bound
        return [_delete(first, _RELEASED), *_shrink_by(requests - first.requests, reversed(others))]
    for pod in bound:
        if requests.fits(pod.requests):
            return [_delete(pod, _RELEASED)]
    actions, freed = list[PlaceholderAction](), ZERO
    for pod in reversed(bound):
        if not requests.fits(freed):
            actions.append(_delete(pod, _RELEASED))
            freed += pod.requests
    return actions


def _shrink_by(missing: Resources, placeholders: Iterable[ClusterPod]) -> Iterator[PlaceholderAction]:
    """Takes from one after the other until they have given up what is missing. One that gives all of it goes."""
    for pod in placeholders:
        cpu, memory = max(missing.cpu_millis, 0), max(missing.memory_bytes, 0)
        has_device = any(missing.extended.get(name, 0) > 0 for name in pod.requests.extended)
        if has_device or memory > pod.requests.memory_bytes - LEAST_MEMORY_BYTES or cpu > pod.requests.cpu_millis:
            missing -= pod.requests
            yield _delete(pod, _RELEASED)
        elif cpu or memory:
            missing -= Resources(cpu, memory)
            yield _resize(pod, pod.requests - Resources(cpu, memory), _RELEASED)


def not_held(reserve: Resources, holding: Iterable[ClusterPod]) -> Resources | None:
    """Returns what of the reserve these pods do not hold, those that wait for room counted too; None: nothing."""
    held = ZERO
    for pod in holding:
        held += pod.requests
    lacking = reserve.shortfall(held)
    if not lacking:
        return None
    cpu, memory, pods = (lacking.pop(name, 0) for name in ("cpu", "memory", "pods"))
    return Resources(cpu, memory, pods, lacking or NOTHING)


def _grow(
    node: str,
    missing: Resources,
    placeholders: Sequence[ClusterPod],
    tolerations: tuple[Toleration, ...],
    *,
    resize: bool,
) -> Iterator[PlaceholderAction]:
    reason = f"the backups on node {node} need more room"
    bound = [pod for pod in placeholders if pod.node]
    if resize and bound and not missing.pods and {name for name, _ in missing.items()} <= RESIZABLE:
        first = min(bound, key=lambda pod: pod.name)
        yield _resize(first, first.requests + missing, reason)
        return
    for requests in split(missing, max(missing.pods, 1)):
        yield CreatePlaceholder(node, requests, tolerations, reason)


def split(amount: Resources, parts: int) -> Iterator[Resources]:
    """Yields parts of about the same size that are together at least `amount`, each with one pod slot. Devices are
    whole."""
    devices = amount.extended
    for number in range(parts):
        share = {name: _nth_part(total, parts, number) for name, total in devices.items()}
        yield Resources(
            _nth_part(amount.cpu_millis, parts, number),
            max(_nth_part(amount.memory_bytes, parts, number), LEAST_MEMORY_BYTES),
            1,
            {name: count for name, count in share.items() if count} or NOTHING,
        )


def _nth_part(total: int, parts: int, number: int) -> int:
    return total // parts + (1 if number < total % parts else 0)


def _shrink(reserve: Resources, placeholders: Sequence[ClusterPod], *, resize: bool) -> Iterator[PlaceholderAction]:
    """Deletes what the others make superfluous, the largest first; then makes one smaller where that is worth it."""
    staying = sorted(placeholders, key=lambda pod: (not pod.node, pod.requests.memory_bytes, pod.name))
    for pod in reversed(staying.copy()):
        others = [other for other in staying if other is not pod]
        if reserve.fits(held_by(others)):
            staying = others
            yield _delete(pod, "the backups on its node need less room")
    surplus = held_by(staying) - reserve
    cpu, memory = max(surplus.cpu_millis, 0), max(surplus.memory_bytes, 0)
    worth_it = cpu > SHRINK_SHARE * reserve.cpu_millis or memory > SHRINK_SHARE * reserve.memory_bytes
    if resize and worth_it:
        largest = max((pod for pod in staying if pod.node), key=lambda pod: (pod.requests.memory_bytes, pod.name))
        least = largest.requests
        smaller = Resources(
            max(least.cpu_millis - cpu, 0),
            max(least.memory_bytes - memory, LEAST_MEMORY_BYTES),
            least.pods,
            least.extended,
        )
        if smaller != least:
            yield _resize(largest, smaller, "the backups on its node need less room")


def _resize(pod: ClusterPod, requests: Resources, reason: str) -> ResizePlaceholder:
    return ResizePlaceholder(pod.uid, pod.namespace, pod.name, requests, reason)


def _delete(pod: ClusterPod, reason: str) -> DeletePlaceholder:
    return DeletePlaceholder(pod.uid, pod.namespace, pod.name, reason)


class CoverageState(StrEnum):
    """Says how far a pod is covered.

    COVERED: its backup node holds the room that it needs.
    WAITING: its backup node is chosen, and the room is not held yet.
    UNCOVERED: no node can be its backup, or the room was refused.
    """

    COVERED = "covered"
    WAITING = "waiting"
    UNCOVERED = "uncovered"


class Coverage(PodBackup, frozen=True):
    """Says whether one pod is covered, and where."""

    state: CoverageState


def coverage_of(cluster: Cluster, plan: BackupPlan, problems: Mapping[str, str]) -> Mapping[str, Coverage]:
    """Maps the UID of every pod of the plan to whether its backup's room is held for real.

    problems: node → why its placeholders cannot be created or changed, such as a quota.
    """
    placeholders = placeholders_by_node(cluster)
    lacking = {
        node: ", ".join(shortfall)
        for node, reserve in plan.reserves.items()
        if (shortfall := reserve.shortfall(held_by(placeholders.get(node, ()))))
    }
    found: dict[str, Coverage] = {}
    for uid, each in plan.pods.items():
        if isinstance(each, Uncovered):
            found[uid] = Coverage("", each.reason, CoverageState.UNCOVERED)
        elif each.node not in lacking:
            found[uid] = Coverage(each.node, "", CoverageState.COVERED)
        elif each.node in problems:
            found[uid] = Coverage(each.node, problems[each.node], CoverageState.UNCOVERED)
        else:
            reason = f"node {each.node} does not hold its room yet: {lacking[each.node]} missing"
            found[uid] = Coverage(each.node, reason, CoverageState.WAITING)
    return found
