"""Defines what nodes keep free for failures: the largest need of one failure, which is computed here and nowhere else.

Planners count in integers: a node and a resource is its position, and amounts stand in arrays with a row for each node
and a column for each resource. A Room is what planners begin with, and a ReserveLedger is what is left while they put
pods and backups.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from leadsman.cluster.constraints import HostPort, PodAffinityTerm
from leadsman.cluster.model import Cluster, ClusterPod
from leadsman.cluster.resources import ZERO, Resources
from leadsman.planning.backups.backup_plan import Backups, FailureDomain, FailureDomains

Ints = NDArray[np.int64]

HOSTNAME_LABEL = "kubernetes.io/hostname"


class Room(Struct, frozen=True, eq=False):
    """Holds a cluster's room and failures in integers.

    nodes, resources: their names. Resources that begin with "host port" or "anti-affinity" have one unit a node.
    free: (nodes, resources): what pods leave that keep their nodes.
    domains: node → its own domain, its rack's and its zone's; None where one is unknown.
    needs: failure, node, and what pods whose backup nobody moves need there then; once for each failure and node.
    """

    nodes: tuple[str, ...]
    resources: tuple[str, ...]
    free: Ints
    domains: tuple[tuple[FailureDomain | None, ...], ...]
    needs: tuple[tuple[FailureDomain, int, Ints], ...] = ()

    def survived(self, node: int, scopes: int) -> tuple[FailureDomain, ...]:
        """Returns the failures that a pod on the node is to survive, the narrowest first; (): it asks for none, or its
        rack or zone is unknown.

        scopes: how many of the node's domains: 1: its own; 2: its rack's too; 3: its zone's too.
        """
        own = self.domains[node][:scopes]
        return tuple(each for each in own if each is not None) if own and own[-1] is not None else ()

    def members(self) -> dict[FailureDomain, list[int]]:
        """Maps each domain to the nodes that fail with it."""
        found: dict[FailureDomain, list[int]] = defaultdict(list)
        for node, domains in enumerate(self.domains):
            for domain in domains:
                if domain is not None:
                    found[domain].append(node)
        return found


class ReserveLedger:
    """Keeps account of what is left while pods are put on nodes and get backups.

    free: (nodes, resources): what pods leave, with the reserves in it.
    reserved: (nodes, resources): the largest need of one failure.
    needs: failure → node → what falls there.
    """

    def __init__(self, free: Ints, needs: Sequence[tuple[FailureDomain, int, Ints]] = ()) -> None:
        """needs: once for each failure and node."""
        self.free, self.reserved = free.copy(), np.zeros_like(free)
        self.needs: dict[FailureDomain, dict[int, Ints]] = defaultdict(dict)
        self._failures_at: dict[int, set[FailureDomain]] = defaultdict(set)
        for domain, node, amounts in needs:
            self.needs[domain][node] = amounts
            self._failures_at[node].add(domain)
        if needs:
            np.maximum.at(self.reserved, [node for _, node, _ in needs], np.array([each for *_, each in needs]))

    def fall(self, domains: Iterable[FailureDomain], node: int, amounts: Ints) -> None:
        """Counts what falls on the node when any of the domains fails; a negative amount takes it back."""
        there, taken_back = self._failures_at[node], bool((amounts < 0).any())
        for domain in domains:
            needed = self.needs[domain]
            needed[node] = needed[node] + amounts if node in needed else amounts
            there.add(domain)
            if taken_back and not needed[node].any():
                del needed[node]
                there.discard(domain)
            elif not taken_back:
                np.maximum(self.reserved[node], needed[node], out=self.reserved[node])
        if taken_back:
            self.reserved[node] = np.max([self.needs[domain][node] for domain in there], axis=0) if there else 0

    def reserved_with(
        self, domains: Iterable[FailureDomain], amounts: Ints, nodes: Sequence[int] | None = None
    ) -> Ints:
        """Returns (nodes, resources): what each of these nodes, all by default, would reserve if a pod fell there when
        any of the domains fails."""
        reserved = self.reserved.copy() if nodes is None else self.reserved[nodes]
        for domain in domains:
            np.maximum(reserved, amounts, out=reserved)
            falling = self.needs.get(domain, {})
            if nodes is not None:
                falling = {row: falling[node] for row, node in enumerate(nodes) if node in falling}
            if falling:
                there = list(falling)
                reserved[there] = np.maximum(reserved[there], np.array(list(falling.values())) + amounts)
        return reserved

    def room_after(self, domains: Iterable[FailureDomain], node: int, amounts: Ints) -> int:
        """Says how many such pods the node can take after each of the failures."""
        left = [self.free[node] - self.needs.get(domain, {}).get(node, 0) for domain in domains]
        return int(copies(np.array(left), amounts).min())


def copies(free: Ints, amounts: Ints) -> Ints:
    """Says how many times the amounts fit in each row of what is free."""
    asked = np.flatnonzero(amounts)
    fitting: Ints = (free[:, asked] // amounts[asked]).min(axis=1).clip(min=0)
    return fitting


class Columns:
    """Says what pods take, as columns: resources, host ports, and a place on a node that a pod has for itself.

    units: how much of the cluster's unit one unit of each column is.
    """

    def __init__(self, pods: Sequence[ClusterPod], others: Iterable[ClusterPod] = (), in_units: bool = False) -> None:
        """pods: those that are counted, with all that they take. others: of these only the resources.
        in_units: in the largest unit in which all requests are whole, in place of the cluster's."""
        pods_of_resources = (*pods, *others)
        self._resources = tuple(sorted({name for pod in pods_of_resources for name, _ in pod.requests.items()}))
        self._ports = tuple(dict.fromkeys(port for pod in pods for port in pod.constraints.host_ports))
        own = [term for pod in pods for term in pod.constraints.anti_affinity if is_against_itself(pod, term)]
        self._terms = tuple(dict.fromkeys(term for term in own if term.topology_key == HOSTNAME_LABEL))
        ports = (f"host port {port.port}/{port.protocol}" for port in self._ports)
        self.names = (*self._resources, *ports, *("anti-affinity on one node" for _ in self._terms))
        self.units: Ints = np.ones(len(self.names), np.int64)
        if in_units:
            self.units = np.gcd.reduce([self.of(pod) for pod in pods_of_resources] or [self.units], axis=0).clip(min=1)

    def of(self, pod: ClusterPod) -> Ints:
        """Returns what one pod needs: pods that only others keep away from need no place for themselves."""
        amounts, first_term = self.taken_by(pod), len(self.names) - len(self._terms)
        own = pod.constraints.anti_affinity
        amounts[[at for at, term in enumerate(self._terms, first_term) if term not in own]] = 0
        return amounts

    def taken_by(self, pod: ClusterPod) -> Ints:
        """Returns what one pod leaves to no other that needs it."""
        amounts = [pod.requests.amount(name) for name in self._resources]
        ports = (_conflicts(port, pod) for port in self._ports)
        return np.array([*amounts, *ports, *(_meant(term, pod) for term in self._terms)], np.int64) // self.units

    def free(self, cluster: Cluster, node: str) -> Ints:
        """Returns what the pods of a node leave."""
        left, there = cluster.free(node), cluster.pods_on(node)
        ports = (1 - sum(_conflicts(port, pod) for pod in there) for port in self._ports)
        own = (1 - sum(_meant(term, pod) for pod in there) for term in self._terms)
        return np.array([*(left.amount(name) for name in self._resources), *ports, *own], np.int64) // self.units

    def free_on_all(self, cluster: Cluster) -> Ints:
        """Returns (nodes, resources): what pods leave of each node, in the cluster's order."""
        rows = [self.free(cluster, node) for node in cluster.nodes]
        return np.array(rows, np.int64).reshape(len(rows), len(self.names))

    def resources(self, row: Ints) -> Resources:
        """Returns the amounts as the cluster has them."""
        amounts = dict(zip(self._resources, (row * self.units).tolist(), strict=False))
        cpu, memory, pods = (amounts.pop(name, 0) for name in ("cpu", "memory", "pods"))
        return Resources(cpu, memory, pods, {name: amount for name, amount in amounts.items() if amount})


def room_of(cluster: Cluster, columns: Columns, failures: FailureDomains, backups: Backups) -> Room:
    """Returns the room that the pods of the cluster leave, of whom these have backups."""
    position = {node: number for number, node in enumerate(cluster.nodes)}
    needs: dict[tuple[FailureDomain, int], Ints] = {}
    for uid, backup in backups.items():
        amounts = columns.taken_by(cluster.pods[uid])
        for domain in backup.domains:
            key = domain, position[backup.node]
            needs[key] = needs[key] + amounts if key in needs else amounts
    return Room(
        nodes=tuple(cluster.nodes),
        resources=columns.names,
        free=columns.free_on_all(cluster),
        domains=tuple(failures.of_node[node] for node in cluster.nodes),
        needs=tuple((domain, node, amounts) for (domain, node), amounts in needs.items()),
    )


def reserves_of(cluster: Cluster, backups: Backups) -> dict[str, Resources]:
    """Maps each node to what it reserves for these backups, without the nodes that reserve nothing."""
    columns = Columns((), [cluster.pods[uid] for uid in backups])
    position = {node: number for number, node in enumerate(cluster.nodes)}
    ledger = ReserveLedger(np.zeros((len(position), len(columns.names)), np.int64))
    for uid, backup in backups.items():
        ledger.fall(backup.domains, position[backup.node], columns.of(cluster.pods[uid]))
    return dict(named_reserves(list(position), columns, ledger))


class TwoFailures(Struct, frozen=True):
    """Says what is lost when two nodes fail at once, of the pods that have a backup.

    worst: the two nodes with which most are lost; (): no two lose any. lost: at most so many pods then.
    losing: how many pairs of nodes lose any. pairs: of how many.
    """

    worst: tuple[str, ...]
    lost: int
    losing: int
    pairs: int

    @property
    def text(self) -> str:
        """Says it in a sentence."""
        if not self.lost:
            return "no two nodes that fail at once lose a pod that has a backup"
        lose = f"{self.losing} of {self.pairs} pairs of nodes that fail at once lose pods that have a backup"
        return f"{lose}, {' and '.join(self.worst)} the most: {self.lost}"


def two_failures(cluster: Cluster, backups: Backups, reserves: Mapping[str, Resources]) -> TwoFailures:
    """Looks at every two nodes. A pod is lost whose backup is the other node; and where what both bring to a backup is
    more than its reserve, the pods of one of them, the fewer."""
    position, nodes = {node: number for number, node in enumerate(cluster.nodes)}, list(cluster.nodes)
    columns = Columns((), [cluster.pods[uid] for uid in backups])
    falling: dict[int, dict[int, list[Ints]]] = defaultdict(lambda: defaultdict(list))
    for uid, backup in backups.items():
        pod = cluster.pods[uid]
        falling[position[backup.node]][position[pod.node]].append(columns.of(pod))
    lost = np.zeros((len(nodes), len(nodes)), np.int16)
    for at, by_node in falling.items():
        failing, pods = list(by_node), np.array([len(each) for each in by_node.values()], np.int16)
        lost[failing, at] += pods
        lost[at, failing] += pods
        needs = np.array([np.sum(each, axis=0) for each in by_node.values()])
        reserve = [reserves[nodes[at]].amount(name) for name in columns.names]
        too_much = (needs[:, None] + needs[None] > reserve).any(axis=2)
        lost[np.ix_(failing, failing)] += np.where(too_much, np.minimum(pods[:, None], pods[None]), 0)
    np.fill_diagonal(lost, 0)
    pairs, losing, most = len(nodes) * (len(nodes) - 1) // 2, int(np.count_nonzero(lost)) // 2, int(lost.max(initial=0))
    worst = np.unravel_index(int(lost.argmax()), lost.shape) if most else ()
    return TwoFailures(tuple(nodes[int(each)] for each in worst), most, losing, pairs)


def named_reserves(nodes: Sequence[str], columns: Columns, ledger: ReserveLedger) -> Iterator[tuple[str, Resources]]:
    """Yields each node that reserves something, and what."""
    for node in np.flatnonzero(ledger.reserved.any(axis=1)).tolist():
        if (reserve := columns.resources(ledger.reserved[node])) != ZERO:
            yield nodes[node], reserve


def is_against_itself(pod: ClusterPod, term: PodAffinityTerm) -> bool:
    """Tells whether pods like this one keep each other away by the term."""
    return term.matches(pod.namespace, pod.labels, {})


def _conflicts(port: HostPort, pod: ClusterPod) -> int:
    return int(any(port.conflicts(taken) for taken in pod.constraints.host_ports))


def _meant(term: PodAffinityTerm, pod: ClusterPod) -> int:
    return int(term.matches(pod.namespace, pod.labels, {}))
