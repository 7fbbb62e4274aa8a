"""Turns a cluster and pod templates into a Problem.

The pods that run keep their nodes, and the backups that plan_backups gives them; the room of placeholders is free, what
they stand for is reserved. Pods that wait for a node are left out. Where one pod changes where another may be, numbers
alone do not describe a template: it gets cautions, and its packings are judged pod by pod.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from leadsman.cluster.checks import Candidate
from leadsman.cluster.model import Cluster, ClusterPod
from leadsman.cluster.resources import ZERO
from leadsman.cluster.scheduling import counts_itself, spread_counts
from leadsman.decision.delay.bounds import TargetName, valid_bounds
from leadsman.decision.model import PodInfo
from leadsman.kube.names import DELAY_ANNOTATION, DELAY_LABEL_PREFIX
from leadsman.planning.backups.backup_plan import BackupPlan, BackupSettings, FailureDomains, scopes_of
from leadsman.planning.backups.planner import plan_backups, without_placeholders
from leadsman.planning.backups.reserve import HOSTNAME_LABEL, Columns, Ints, Room, is_against_itself, room_of
from leadsman.planning.capacity.packing import Problem, Spread, Template
from leadsman.planning.situation import Situation, references


def cautions(
    pod: ClusterPod, wants_backup: bool, templates: Sequence[ClusterPod], cluster: Cluster, plan: BackupPlan
) -> tuple[str, ...]:
    """Says why the pods of this template must be judged one by one; () when they need not."""
    constraints = pod.constraints
    domains = len(constraints.spread) + sum(term.topology_key != HOSTNAME_LABEL for term in constraints.anti_affinity)
    others = [each for each in templates if each is not pod]
    covered = [cluster.pods[uid] for uid in plan.backups]
    between = "have a required affinity, anti-affinity or spread for each other"
    found = {
        "it is spread over domains in several ways, or with backups": domains > 1 or (domains and wants_backup),
        "it has a required pod affinity": constraints.affinity,
        "it has claims": pod.claims,
        "it asks for devices": pod.devices,
        "it is bound to a workload, whose pods may fall too": wants_backup
        and any(name not in cluster.nodes for _, name in references(pod)),
        f"it and another template {between}": any(
            _looks_at(pod, other, cluster) or _looks_at(other, pod, cluster) for other in others
        ),
        f"it and a pod with a backup {between}": any(
            _looks_at(each, pod, cluster) or (wants_backup and _looks_at(pod, each, cluster)) for each in covered
        ),
        "a template is bound to the workload of a template": any(
            _is_bound_to(each, other) for each in templates for other in templates
        ),
        "a pod with a backup is bound to its workload": any(_is_bound_to(each, pod) for each in covered),
    }
    return tuple(what for what, is_so in found.items() if is_so)


def _looks_at(pod: ClusterPod, other: ClusterPod, cluster: Cluster) -> bool:
    """Tells whether a requirement of `pod` counts pods like `other`, apart from what the problem counts itself."""
    labels = cluster.namespaces.get(other.namespace, {"kubernetes.io/metadata.name": other.namespace})
    terms = (*pod.constraints.affinity, *pod.constraints.anti_affinity)
    if any(term.matches(other.namespace, other.labels, labels) for term in terms):
        return True
    selectors = [each.selector for each in pod.constraints.spread if each.selector is not None]
    return pod.namespace == other.namespace and any(each.matches(other.labels) for each in selectors)


def _is_bound_to(pod: ClusterPod, other: ClusterPod) -> bool:
    """Tells whether a bound of the pod names the workload of `other`."""
    own = other.workload.rpartition("/")[2]
    names = [TargetName.of(bound.reference) for bound in valid_bounds(PodInfo.of(pod))]
    return any(each.name == own and (each.namespace or pod.namespace) == other.namespace for each in names)


def without_coupling(pod: ClusterPod, templates: Sequence[ClusterPod], cluster: Cluster) -> ClusterPod:
    """Returns the pod without what new pods could fulfil and none does yet: bounds to their workloads, and required
    affinities to pods of other templates. What is then refused stays refused, whatever is added."""
    others = [each for each in templates if each is not pod]
    if any(_asks_for(pod, other, cluster) for other in others):
        pod = replace(pod, constraints=replace(pod.constraints, affinity=()))
    if not any(_is_bound_to(pod, other) for other in templates):
        return pod
    new = {other.workload.rpartition("/")[2] for other in templates}
    labels = {key: value for key, value in pod.labels.items() if key.removeprefix(DELAY_LABEL_PREFIX) not in new}
    lines = pod.annotations.get(DELAY_ANNOTATION, "").splitlines()
    kept = [line for line in lines if TargetName.of(line.partition(":")[0].strip()).name not in new]
    return replace(pod, labels=labels, annotations={**pod.annotations, DELAY_ANNOTATION: "\n".join(kept)})


def _asks_for(pod: ClusterPod, other: ClusterPod, cluster: Cluster) -> bool:
    labels = cluster.namespaces.get(other.namespace, {"kubernetes.io/metadata.name": other.namespace})
    return any(term.matches(other.namespace, other.labels, labels) for term in pod.constraints.affinity)


_UNLIMITED = 1 << 40
"""Stands for no limit: more pods than any cluster has."""


class PodTemplate(Struct, frozen=True):
    """Pods that may be created. pod: one of them, without a node. per_set: how many a set has."""

    name: str
    pod: ClusterPod
    per_set: int = 1


class CapacityModel(Struct, frozen=True):
    """A problem, and what its numbers stand for.

    situation: without placeholders. plan: the backups of the pods that run.
    failures: which nodes fail together.
    refusals: template → node → why it may not run it, whatever its room.
    cautions: template → why its packings are judged by what they look at, pod by pod; () when numbers say it all.
    """

    problem: Problem
    situation: Situation
    settings: BackupSettings
    plan: BackupPlan
    failures: FailureDomains
    templates: tuple[PodTemplate, ...]
    refusals: tuple[Mapping[str, str], ...]
    cautions: tuple[tuple[str, ...], ...]


def model_capacity(
    situation: Situation,
    templates: Sequence[PodTemplate],
    settings: BackupSettings,
    previous: BackupPlan | None = None,
    backups: bool = True,
) -> CapacityModel:
    """Makes the model that counts how many more pods fit.

    previous: a plan of the pods that run, in place of a new one. backups: False: nothing is reserved for failures,
    and no pod wants a backup.
    """
    situation = situation.on(without_placeholders(situation.cluster))
    plan = previous or (plan_backups(situation, settings) if backups else BackupPlan())
    return _Modelling(situation, tuple(templates), settings, plan, backups).model()


class _Modelling:
    def __init__(
        self,
        situation: Situation,
        templates: tuple[PodTemplate, ...],
        settings: BackupSettings,
        plan: BackupPlan,
        backups: bool,
    ) -> None:
        self._situation, self._templates = situation, templates
        self._cluster = cluster = situation.cluster
        self._settings, self._plan, self._with_backups = settings, plan, backups
        self._names = tuple(cluster.nodes)
        self._failures = FailureDomains(cluster, situation.inputs, settings.rack_label)

    def model(self) -> CapacityModel:
        room = room_of(
            self._cluster, Columns([each.pod for each in self._templates]), self._failures, self._plan.backups
        )
        refusals = tuple(self._refusals(each.pod) for each in self._templates)
        pairs = zip(self._templates, refusals, strict=True)
        templates = tuple(self._template(each, refused, room) for each, refused in pairs)
        problem = Problem(room, templates)
        return CapacityModel(
            problem,
            self._situation,
            self._settings,
            self._plan,
            self._failures,
            self._templates,
            refusals,
            tuple(
                cautions(each.pod, wants.scopes > 0, [o.pod for o in self._templates], self._cluster, self._plan)
                for each, wants in zip(self._templates, problem.templates, strict=True)
            ),
        )

    def _refusals(self, pod: ClusterPod) -> dict[str, str]:
        pod = without_coupling(pod, [each.pod for each in self._templates], self._cluster)
        verdict = self._situation.verdict(without_counted(pod))
        return {node: verdict.why_not(node) for node in set(self._names) - set(verdict.nodes)}

    def _template(self, template: PodTemplate, refused: Mapping[str, str], room: Room) -> Template:
        allowed = np.array([node not in refused for node in self._names], np.bool_)
        scopes, places = self._scopes(template.pod), allowed
        if scopes:
            places = allowed & np.array([bool(room.survived(n, scopes)) for n in range(len(self._names))], np.bool_)
        return Template(
            name=template.name,
            per_set=template.per_set,
            amounts=Columns([each.pod for each in self._templates]).of(template.pod),
            places=places,
            backups=allowed,
            scopes=scopes,
            spread=tuple(self._spreads(template.pod)),
        )

    def _scopes(self, pod: ClusterPod) -> int:
        wants = self._with_backups and PodInfo.of(pod).has_delay_bounds
        return scopes_of(pod, self._settings) if wants else 0

    def _spreads(self, pod: ClusterPod) -> Iterator[Spread]:
        candidate = Candidate(self._cluster, pod)
        for constraint in pod.constraints.spread:
            if counts_itself(pod, constraint):
                counted = spread_counts(candidate, constraint)
                yield Spread(
                    label=constraint.topology_key,
                    domain_of_node=self._ordered(candidate, counted.domain_of_node),
                    present=counted.pods,
                    counted=np.isin(np.arange(len(counted.pods)), counted.domains),
                    max_skew=constraint.max_skew,
                    enough_domains=len(counted.domains) >= constraint.min_domains,
                )
        for term in pod.constraints.anti_affinity:
            if term.topology_key != HOSTNAME_LABEL and is_against_itself(pod, term):
                yield self._one_a_domain(candidate, term.topology_key)

    def _one_a_domain(self, candidate: Candidate, label: str) -> Spread:
        """A domain that has such a pod is refused already. A node without the label is in none, so it is unlimited."""
        domain_of_node = self._ordered(candidate, candidate.columns.domains(label)[0]).copy()
        domains = int(domain_of_node.max(initial=-1)) + 2
        domain_of_node[domain_of_node < 0] = domains - 1
        present = np.zeros(domains, np.int64)
        present[-1] = -_UNLIMITED
        return Spread(label, domain_of_node, present, np.zeros(domains, np.bool_), 1, enough_domains=False)

    def _ordered(self, candidate: Candidate, column: Ints) -> Ints:
        """Returns the column in the order of the problem's nodes."""
        return column[[candidate.columns.position[node] for node in self._names]]


def without_counted(pod: ClusterPod) -> ClusterPod:
    """Returns the pod without what the problem counts in numbers: requests, host ports, and spreads of its own pods."""
    of_others = tuple(each for each in pod.constraints.spread if not counts_itself(pod, each))
    return replace(pod, requests=ZERO, constraints=replace(pod.constraints, host_ports=(), spread=of_others))
