"""Counts under a topology spread or an anti-affinity over zones equal the longest row of pods that kube-scheduler's
rules bind one after another."""

import random

import pytest
from msgspec.structs import replace

from leadsman.cluster.constraints import PodAffinityTerm, PodConstraints, TopologySpread
from leadsman.cluster.model import Cluster, cluster_of
from leadsman.cluster.node import ZONE_LABEL, ClusterNode
from leadsman.cluster.pod import ClusterPod
from leadsman.cluster.resources import Resources
from leadsman.cluster.scheduling import Feasibility
from leadsman.cluster.selectors import LabelSelector, Operator, Requirement
from leadsman.planning.backups.backup_plan import BackupSettings
from leadsman.planning.capacity.count import count_together
from leadsman.planning.capacity.fit_model import PodTemplate, model_capacity
from leadsman.planning.situation import Situation
from leadsman.simulator.solver.cp_sat import exact_packing
from tests.leadsman.planning.backups.random_clusters import inputs_of

ITSELF = LabelSelector((Requirement("app", Operator.IN, ("web",)),))


def spread_case(seed: int) -> tuple[Cluster, ClusterPod]:
    """Nodes for up to three pods each in up to three zones, some pods already there."""
    rng = random.Random(seed)
    nodes = []
    for number in range(rng.randint(2, 5)):
        labels = {ZONE_LABEL: rng.choice("abc")} if rng.random() < 0.9 else {}
        nodes.append(
            ClusterNode(f"n{number}", labels=labels, allocatable=Resources(pods=rng.randint(0, 3)), ready=True)
        )
    term = PodAffinityTerm(ZONE_LABEL, ITSELF, ("shop",))
    spread = TopologySpread(ZONE_LABEL, rng.choice((1, 1, 2)), ITSELF, min_domains=rng.choice((1, 1, 3)))
    constraints = PodConstraints(anti_affinity=(term,)) if rng.random() < 0.3 else PodConstraints(spread=(spread,))
    pod = ClusterPod("new", "shop", "new", labels={"app": "web"}, constraints=constraints)
    cluster = cluster_of(nodes, ())
    for number in range(rng.randint(0, 2)):
        old, node = (
            replace(pod, uid=f"old-{number}", name=f"old-{number}", constraints=PodConstraints()),
            rng.choice(nodes),
        )
        if old.requests.fits(cluster.free(node.name)):
            cluster = cluster.with_pod(old, node.name)
    return cluster, pod


def longest_row(cluster: Cluster, pod: ClusterPod) -> int:
    """The most pods that can be bound one after another, by trying every order of nodes."""
    best, seen = 0, set[tuple[int, ...]]()
    waiting = [(cluster, 0)]
    while waiting:
        at, pods = waiting.pop()
        best = max(best, pods)
        for node in Feasibility(at, pod).nodes:
            then = at.with_pod(replace(pod, uid=f"new-{pods}", name=f"new-{pods}"), node)
            key = tuple(len(then.pods_on(each)) for each in then.nodes)
            if key not in seen:
                seen.add(key)
                waiting.append((then, pods + 1))
    return best


@pytest.mark.parametrize("first_seed", range(0, 120, 40))
def test_a_spread_count_equals_the_longest_row(first_seed: int) -> None:
    for seed in range(first_seed, first_seed + 40):
        cluster, pod = spread_case(seed)
        situation = Situation(cluster, inputs_of(cluster, {}))
        model = model_capacity(situation, [PodTemplate("t", pod)], BackupSettings())
        count, longest = count_together(model), longest_row(cluster, pod)
        assert (count.sets, count.at_most) == (longest, longest), f"seed {seed}"
        assert exact_packing(model.problem, 1, longest + 3)[1] == longest, f"seed {seed}"
