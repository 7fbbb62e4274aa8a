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
from leadsman.cluster.scheduling import counts_itself, looks_at, spread_counts
from leadsman.decision.delay.bounds import TargetName, valid_bounds
from leadsman.decision.model import PodInfo
from leadsman.kube.names import DELAY_ANNOTATION, DELAY_LABEL_PREFIX
from leadsman.planning.backups.backup_plan import BackupPlan, BackupSettings, FailureDomains, scopes_of
from leadsman.planning.backups.planner import plan_backups, without_placeholders
from leadsman.planning.backups.reserve import HOSTNAME_LABEL, Columns, Ints, is_against_itself, room_of
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
            looks_at(pod, other, cluster) or looks_at(other, pod, cluster) for other in others
        ),
        f"it and a pod with a backup {between}": any(
            looks_at(each, pod, cluster) or (wants_backup and looks_at(pod, each, cluster)) for each in covered
        ),
        "a template is bound to the workload of a template": any(
            is_bound_to(each, other) for each in templates for other in templates
        ),
        "a pod with a backup is bound to its workload": any(is_bound_to(each, pod) for each in covered),
    }
    return tuple(what for what, is_so in found.items() if is_so)


def is_bound_to(pod: ClusterPod, other: ClusterPod) -> bool:
    """Tells whether a bound of the pod names the workload of `other`."""
    own = other.workload.rpartition("/")[2]
    names = [TargetName.of(bound.reference) for bound in valid_bounds(PodInfo.of(pod))]
    return any(each.name == own and (each.namespace or pod.namespace) == other.namespace for each in names)


def without_coupling(pod: ClusterPod, templates: Sequence[ClusterPod], cluster: Cluster) -> ClusterPod:
    """Returns the pod without what new pods could fulfil and none does yet: bounds to their workloads, and required
    affinities to pods of other templates. What is then refused stays refused, whatever is added."""
    others = [each for each in templates if each is not pod]
    labels_of = cluster.namespace_labels
    asked = ((term, each) for term in pod.constraints.affinity for each in others)
    if any(term.matches(each.namespace, each.labels, labels_of(each.namespace)) for term, each in asked):
        pod = replace(pod, constraints=replace(pod.constraints, affinity=()))
    if not any(is_bound_to(pod, other) for other in templates):
        return pod
    new = {other.workload.rpartition("/")[2] for other in templates}
    labels = {key: value for key, value in pod.labels.items() if key.removeprefix(DELAY_LABEL_PREFIX) not in new}
    lines = pod.annotations.get(DELAY_ANNOTATION, "").splitlines()
    kept = [line for line in lines if TargetName.of(line.partition(":")[0].strip()).name not in new]
    return replace(pod, labels=labels, annotations={**pod.annotations, DELAY_ANNOTATION: "\n".join(kept)})


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
    cluster, pods = situation.cluster, [each.pod for each in templates]
    failures, columns = FailureDomains(cluster, situation.inputs, settings.rack_label), Columns(pods)
    room = room_of(cluster, columns, failures, plan.backups)
    refusals, modelled = [], []
    for each in templates:
        verdict = situation.verdict(without_counted(without_coupling(each.pod, pods, cluster)))
        refused = {node: verdict.why_not(node) for node in set(cluster.nodes) - set(verdict.nodes)}
        allowed = np.array([node not in refused for node in cluster.nodes], np.bool_)
        scopes = scopes_of(each.pod, settings) if backups and PodInfo.of(each.pod).has_delay_bounds else 0
        survivable = [not scopes or bool(room.survived(number, scopes)) for number in range(len(cluster.nodes))]
        refusals.append(refused)
        modelled.append(
            Template(
                name=each.name,
                per_set=each.per_set,
                amounts=columns.of(each.pod),
                places=allowed & np.array(survivable, np.bool_),
                backups=allowed,
                scopes=scopes,
                spread=tuple(_spreads(each.pod, cluster)),
            )
        )
    return CapacityModel(
        Problem(room, tuple(modelled)),
        situation,
        settings,
        plan,
        failures,
        tuple(templates),
        tuple(refusals),
        tuple(
            cautions(wants.pod, each.scopes > 0, pods, cluster, plan)
            for wants, each in zip(templates, modelled, strict=True)
        ),
    )


def _spreads(pod: ClusterPod, cluster: Cluster) -> Iterator[Spread]:
    candidate = Candidate(cluster, pod)
    for constraint in pod.constraints.spread:
        if counts_itself(pod, constraint):
            counted = spread_counts(candidate, constraint)
            yield Spread(
                label=constraint.topology_key,
                domain_of_node=_ordered(candidate, counted.domain_of_node),
                present=counted.pods,
                counted=np.isin(np.arange(len(counted.pods)), counted.domains),
                max_skew=constraint.max_skew,
                enough_domains=len(counted.domains) >= constraint.min_domains,
            )
    for term in pod.constraints.anti_affinity:
        if term.topology_key != HOSTNAME_LABEL and is_against_itself(pod, term):
            yield _one_a_domain(candidate, term.topology_key)


def _one_a_domain(candidate: Candidate, label: str) -> Spread:
    """A domain that has such a pod is refused already. A node without the label is in none, so it is unlimited."""
    domain_of_node = _ordered(candidate, candidate.columns.domains(label)[0]).copy()
    domains = int(domain_of_node.max(initial=-1)) + 2
    domain_of_node[domain_of_node < 0] = domains - 1
    present = np.zeros(domains, np.int64)
    present[-1] = -_UNLIMITED
    return Spread(label, domain_of_node, present, np.zeros(domains, np.bool_), 1, enough_domains=False)


def _ordered(candidate: Candidate, column: Ints) -> Ints:
    """Returns the column in the order of the problem's nodes."""
    return column[[candidate.columns.position[node] for node in candidate.cluster.nodes]]


def without_counted(pod: ClusterPod) -> ClusterPod:
    """Returns the pod without what the problem counts in numbers: requests, host ports, and spreads of its own pods."""
    of_others = tuple(each for each in pod.constraints.spread if not counts_itself(pod, each))
    return replace(pod, requests=ZERO, constraints=replace(pod.constraints, host_ports=(), spread=of_others))
