"""Random small clusters and templates, and every way to put pods on them: what a count must equal."""

import random
from collections import Counter
from collections.abc import Sequence

from msgspec.structs import replace

from leadsman.cluster.constraints import HostPort, PodAffinityTerm, PodConstraints, Taint, TopologySpread
from leadsman.cluster.model import ZONE_LABEL, ClusterNode, ClusterPod, cluster_of
from leadsman.cluster.resources import ZERO, Resources
from leadsman.cluster.scheduling import Feasibility
from leadsman.decision.delay.delay_plugins import DelayFilter
from leadsman.decision.model import PodInfo
from leadsman.planning.backups.backup_plan import BackupPlan, BackupScope, FailureDomain, FailureDomains
from leadsman.planning.capacity.fit_model import PodTemplate
from tests.leadsman.planning.backups.random_clusters import MIB, RACK_LABEL, Case, inputs_of
from tests.leadsman.planning.moves.movable_pods import of_app, owned_pod

SCOPES = (BackupScope.NODE, BackupScope.RACK, BackupScope.ZONE)


def small_case(seed: int, most_nodes: int = 8) -> tuple[Case, list[PodTemplate]]:
    """Nodes with room for a few pods, some pods on them, and one or two templates."""
    rng = random.Random(seed)
    names = [f"node-{number}" for number in range(rng.randint(3, most_nodes))]
    rtt_ms = {pair: rng.uniform(1, 30) for pair in ((a, b) for a in names for b in names if a < b)}
    matrix = {a: {b: rtt_ms[min(a, b), max(a, b)] if a != b else 0.0 for b in names} for a in names}
    cluster = cluster_of([_node(name, rng) for name in names], ())
    for number in range(rng.randint(0, 4)):
        pod, node = _pod(f"old-{number}", names, rng), rng.choice(names)
        if pod.requests.fits(cluster.free(node)):
            cluster = cluster.with_pod(pod, node)
    templates = []
    for number in range(rng.choice((1, 1, 2))):
        pod = replace(_pod(f"new-{number}", names, rng), uid=f"template-{number}")
        templates.append(PodTemplate(f"t{number}", pod, rng.choice((1, 1, 2))))
    return Case(cluster, inputs_of(cluster, matrix)), templates


def _node(name: str, rng: random.Random) -> ClusterNode:
    labels = {ZONE_LABEL: rng.choice("ab"), RACK_LABEL: rng.choice("12"), "kubernetes.io/hostname": name}
    if rng.random() < 0.1:
        del labels[RACK_LABEL]
    size = Resources(rng.choice((500, 1000)), rng.choice((768, 1024, 1536)) * MIB, rng.choice((2, 20)))
    taints = (Taint("edge", "only"),) if rng.random() < 0.1 else ()
    return ClusterNode(name, uid=name, labels=labels, taints=taints, allocatable=size, ready=True)


def _pod(name: str, nodes: Sequence[str], rng: random.Random) -> ClusterPod:
    bounds = {f"delay_{rng.choice(nodes)}": str(rng.choice((15, 25, 30)))} if rng.random() < 0.7 else {}
    labels = {"app": name, **bounds}
    ports = (HostPort(8080),) if rng.random() < 0.1 else ()
    scope = rng.choice(("node", "node", "rack", "zone", "none"))
    itself = of_app(name)
    apart = (PodAffinityTerm("kubernetes.io/hostname", itself, ("shop",)),) if rng.random() < 0.1 else ()
    is_spread = (scope == "none" or not bounds) and rng.random() < 0.5
    spread = (TopologySpread(ZONE_LABEL, rng.choice((1, 2)), itself),) if is_spread else ()
    return owned_pod(
        name,
        "",
        Resources(rng.choice((250, 300, 500)), rng.choice((256, 384, 512)) * MIB, 1),
        labels=labels,
        annotations={"leadsman.dev/backup": scope},
        constraints=PodConstraints(host_ports=ports, anti_affinity=apart, spread=spread),
        phase="Running",
    )


class TooManyPackings(Exception):
    """There are too many to try."""


class EveryPacking:
    """Tries every node and every backup of every pod, one pod after another, by the plain rules."""

    _STEPS = 20_000

    def __init__(self, case: Case, templates: Sequence[PodTemplate], plan: BackupPlan) -> None:
        self._cluster, self._plan = case.cluster, plan
        domains = FailureDomains(case.cluster, case.inputs, RACK_LABEL)
        self._domains: dict[tuple[str, BackupScope], tuple[FailureDomain, ...]] = {}
        for node in case.cluster.nodes:
            for scope in SCOPES:
                survived = domains.survived_by(scope, node)
                self._domains[node, scope] = survived if isinstance(survived, tuple) else ()
        self._failing = {d: domains.failure(d).nodes for each in self._domains.values() for d in each}
        self._templates = templates
        self._allowed = [self._allowed_nodes(each.pod, case) for each in templates]

    def most_sets(self, stop: int) -> int:
        """The most sets that fit, up to `stop`. TooManyPackings."""
        sets, self._steps = 0, self._STEPS
        while sets < stop and self._fits(
            [n for n, each in enumerate(self._templates) for _ in range((sets + 1) * each.per_set)]
        ):
            sets += 1
        return sets

    def _allowed_nodes(self, pod: ClusterPod, case: Case) -> list[str]:
        by_bounds = DelayFilter().refusals(PodInfo.of(pod), tuple(case.cluster.nodes), case.inputs)
        roomless = replace(pod, requests=ZERO, constraints=replace(pod.constraints, spread=()))
        return [
            n for n in case.cluster.nodes if n not in by_bounds and not Feasibility(case.cluster, roomless).refusals(n)
        ]

    def _fits(self, pods: list[int]) -> bool:
        self._on: dict[str, list[ClusterPod]] = {
            node: list(self._cluster.pods_on(node)) for node in self._cluster.nodes
        }
        self._falling: dict[tuple[FailureDomain, str], list[ClusterPod]] = {}
        for uid, backup in self._plan.backups.items():
            for domain in backup.domains:
                self._falling.setdefault((domain, backup.node), []).append(self._cluster.pods[uid])
        return self._place(pods, 0, ("", ""))

    def _place(self, pods: list[int], at: int, least: tuple[str, str]) -> bool:
        """Puts pods[at:]. Pods of one template are alike, so each goes no earlier than the one before it."""
        self._steps -= 1
        if self._steps < 0:
            raise TooManyPackings
        if at == len(pods):
            return self._can_be_bound()
        number = pods[at]
        pod, allowed = self._templates[number].pod, self._allowed[number]
        first = least if at and pods[at - 1] == number else ("", "")
        wants = SCOPES.index(scope) if (scope := self._scope(pod)) else None
        for node in allowed:
            domains = self._domains[node, SCOPES[wants]] if wants is not None else ()
            if wants is not None and not domains:
                continue
            for backup in allowed if domains else ("",):
                if (node, backup) < first or any(backup in self._failing[d] for d in domains):
                    continue
                self._add(pod, node, backup, domains)
                if (
                    self._holds(node)
                    and (not backup or self._holds(backup))
                    and self._place(pods, at + 1, (node, backup))
                ):
                    return True
                self._remove(pod, node, backup, domains)
        return False

    def _scope(self, pod: ClusterPod) -> BackupScope | None:
        value = pod.annotations["leadsman.dev/backup"]
        return None if value == "none" or not PodInfo.of(pod).has_delay_bounds else BackupScope(value)

    def _add(self, pod: ClusterPod, node: str, backup: str, domains: Sequence[FailureDomain]) -> None:
        self._on[node].append(pod)
        for domain in domains:
            self._falling.setdefault((domain, backup), []).append(pod)

    def _remove(self, pod: ClusterPod, node: str, backup: str, domains: Sequence[FailureDomain]) -> None:
        self._on[node].pop()
        for domain in domains:
            self._falling[domain, backup].pop()

    def _holds(self, node: str) -> bool:
        """Whether the node has room for its pods and, per resource, for the worst failure; and no two pods that keep
        apart meet there, before or after any failure."""
        used, reserve = _sum(self._on[node]), ZERO
        for (_, backup), fallen in self._falling.items():
            if backup == node:
                reserve = reserve.maximum(_sum(fallen))
                if not _get_along([*self._on[node], *fallen]):
                    return False
        return (used + reserve).fits(self._cluster.nodes[node].allocatable) and _get_along(self._on[node])

    def _can_be_bound(self) -> bool:
        """Whether the pods of each template can come one after another, none to a zone that is too full by then."""
        zones = {name: node.labels[ZONE_LABEL] for name, node in self._cluster.nodes.items()}
        for template in self._templates:
            for spread in template.pod.constraints.spread:
                there = Counter(zones[node] for node, pods in self._on.items() for pod in pods if pod is template.pod)
                if not _reachable(dict.fromkeys(zones.values(), 0), there, spread.max_skew):
                    return False
        return True


def _sum(pods: Sequence[ClusterPod]) -> Resources:
    return sum((pod.requests for pod in pods), ZERO)


def _get_along(pods: Sequence[ClusterPod]) -> bool:
    ports = sum(len(pod.constraints.host_ports) for pod in pods)
    apart = Counter(pod.labels["app"] for pod in pods if pod.constraints.anti_affinity)
    return ports <= 1 and max(apart.values(), default=0) <= 1


def _reachable(now: dict[str, int], wanted: Counter[str], max_skew: int) -> bool:
    """Whether so many pods of each zone can be bound one after another, tried in every order of zones."""
    if all(now[zone] == wanted[zone] for zone in now):
        return True
    least = min(now.values())
    steps = (zone for zone in now if now[zone] < wanted[zone] and now[zone] + 1 - least <= max_skew)
    return any(_reachable({**now, zone: now[zone] + 1}, wanted, max_skew) for zone in steps)
