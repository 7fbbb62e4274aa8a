"""What to add and what a failure costs, each held against the cluster where it is so."""

import random

import pytest
from msgspec.structs import replace

from leadsman.cluster.constraints import PodAffinityTerm, PodConstraints, TopologySpread
from leadsman.cluster.model import ZONE_LABEL, Cluster, ClusterNode, ClusterPod, cluster_of
from leadsman.cluster.resources import Resources
from leadsman.cluster.scheduling import Feasibility
from leadsman.planning.backups.backup_plan import BackupScope, BackupSettings
from leadsman.planning.backups.planner import plan_backups
from leadsman.planning.backups.reserve import HOSTNAME_LABEL
from leadsman.planning.capacity.consequences import additions, losses
from leadsman.planning.capacity.count import count_together
from leadsman.planning.capacity.fit_model import PodTemplate, model_capacity
from leadsman.planning.situation import Situation
from leadsman.simulator.solver.cp_sat import exact_packing
from tests.leadsman.planning.backups.random_clusters import MIB, RACK_LABEL, Case, inputs_of, random_case
from tests.leadsman.planning.capacity.small_clusters import small_case
from tests.leadsman.planning.moves.movable_pods import node as node_of
from tests.leadsman.planning.moves.movable_pods import of_app, pods_of

SETTINGS = BackupSettings(rack_label=RACK_LABEL)


def with_copies(case: Case, node: str, copies: int) -> Case:
    """The cluster with real copies of the node: its labels, and its delays in the matrix."""
    names = [f"{node}-copy-{number}" for number in range(copies)]
    original = case.cluster.nodes[node]
    [view] = case.inputs.delay_views
    rtt_ms = {one: dict(view.row(one).forward) for one in view.nodes}
    for name in names:
        for row in rtt_ms.values():
            row[name] = row[node]
        rtt_ms[name] = dict(rtt_ms[node])
    labels = {name: {**original.labels, "kubernetes.io/hostname": name} for name in names}
    nodes = {name: replace(original, name=name, uid=name, labels=labels[name]) for name in names}
    cluster = case.cluster.changed(nodes=nodes)
    return Case(cluster, inputs_of(cluster, rtt_ms))


def test_so_many_copies_are_enough_and_one_less_is_not() -> None:
    tried = 0
    for seed in range(30):
        case, templates = small_case(seed, most_nodes=4)
        model = model_capacity(Situation(*case), templates, SETTINGS)
        asked = count_together(model).sets + 2
        for each in additions(model, asked)[:2]:
            for copies, enough in ((each.copies, True), (each.copies - 1, False)):
                larger = with_copies(case, each.node, copies)
                before = {uid: backup.node for uid, backup in model.plan.backups.items()}
                plan = plan_backups(Situation(*larger), SETTINGS, before)
                if {uid: backup.node for uid, backup in plan.backups.items()} == before:
                    count = count_together(model_capacity(Situation(*larger), templates, SETTINGS, plan))
                    assert (count.sets >= asked) == enough, f"seed {seed}, {copies} of {each.node}"
                    tried += 1
    assert tried > 30


def test_a_failure_loses_what_has_no_room_and_no_owner() -> None:
    nodes = [ClusterNode(name, allocatable=Resources(0, 6 * MIB, 9), ready=True) for name in "ab"]
    stated = [("small", "a", "x", 1), ("large", "a", "x", 3), ("bare", "a", "", 1), ("b", "b", "x", 2)]
    pods = [
        ClusterPod(name, "shop", name, where, owner_uid=owner, requests=Resources(0, size * MIB, 1))
        for name, where, owner, size in stated
    ]
    cluster = cluster_of(nodes, pods)
    template = PodTemplate("t", ClusterPod("t", "a", "t", requests=Resources(0, MIB, 1)))
    model = model_capacity(Situation(cluster, inputs_of(cluster, {})), [template], SETTINGS)
    loss = {each.failure: each for each in losses(model)}
    assert loss["node a"].lost == {"shop/bare": "it has no controller that would make it again"}
    assert (loss["node a"].fallen, loss["node a"].fits, loss["node a"].scope) == (3, (0,), BackupScope.NODE)
    assert (loss["node b"].lost, loss["node b"].fits) == ({"shop/b": "no node that may have it has room"}, (1,))


def test_of_pods_that_keep_apart_each_is_judged_as_if_it_alone_were_gone() -> None:
    """Their pods are alike, but not what they stand beside: each is kept away by the other."""
    apart = PodConstraints(anti_affinity=(PodAffinityTerm(HOSTNAME_LABEL, of_app("web"), ("shop",)),))
    labels, pod = {"app": "web"}, pods_of(1, "web")
    nodes = [replace(each, labels={HOSTNAME_LABEL: each.name}) for each in map(node_of, "ab")]
    cluster = cluster_of(nodes, [pod(f"on-{name}", name, labels=labels, constraints=apart) for name in "ab"])
    model = model_capacity(
        Situation(cluster, inputs_of(cluster, {})), [PodTemplate("t", ClusterPod("t", "a", "t"))], SETTINGS
    )
    assert [list(each.lost) for each in losses(model)] == [["shop/on-a"], ["shop/on-b"]]


def test_pods_without_a_backup_do_not_get_the_room_that_is_held_for_others() -> None:
    """Of 4 GiB on each node 3 are taken; those on b are held for `tied`, should a fail."""
    pod, matrix = pods_of(3), {x: dict.fromkeys("ab", 1.0) for x in "ab"}
    pods = [pod("tied", "a", labels={"delay_b": "5"}), pod("any", "c")]
    cluster = cluster_of((node_of(name, 4) for name in "abc"), pods)
    template = PodTemplate("t", ClusterPod("t", "a", "t", requests=Resources(0, 3 << 30, 1)))
    model = model_capacity(Situation(cluster, inputs_of(cluster, matrix)), [template], SETTINGS)
    loss = {each.failure: each for each in losses(model)}
    assert (loss["node a"].lost, loss["node a"].fits) == ({}, (0,))
    assert (list(loss["node b"].lost), loss["node b"].fits) == ([], (0,))
    assert (list(loss["node c"].lost), loss["node c"].fits) == (["shop/any"], (0,))


def test_a_covered_pod_is_never_lost() -> None:
    for seed in range(60):
        case = random_case(seed)
        model = model_capacity(Situation(*case), [PodTemplate("t", ClusterPod("t", "a", "t"))], SETTINGS)
        covered = {f"shop/{case.cluster.pods[uid].name}": each.domains for uid, each in model.plan.backups.items()}
        for loss in losses(model):
            for pod in loss.lost:
                assert loss.failure not in map(str, covered.get(pod, ())), f"seed {seed}"


# Counts under a topology spread or an anti-affinity over zones equal the longest row of pods that kube-scheduler's
# rules bind one after another.

ITSELF = of_app("web")


def spread_case(seed: int) -> tuple[Cluster, ClusterPod]:
    """Nodes for up to three pods each in up to three zones, some pods already there."""
    rng = random.Random(seed)
    nodes = []
    for number in range(rng.randint(2, 5)):
        labels = {ZONE_LABEL: rng.choice("abc")} if rng.random() < 0.9 else {}
        room = Resources(pods=rng.randint(0, 3))
        nodes.append(ClusterNode(f"n{number}", labels=labels, allocatable=room, ready=True))
    term = PodAffinityTerm(ZONE_LABEL, ITSELF, ("shop",))
    spread = TopologySpread(ZONE_LABEL, rng.choice((1, 1, 2)), ITSELF, min_domains=rng.choice((1, 1, 3)))
    constraints = PodConstraints(anti_affinity=(term,)) if rng.random() < 0.3 else PodConstraints(spread=(spread,))
    pod = ClusterPod("new", "shop", "new", labels={"app": "web"}, constraints=constraints)
    cluster = cluster_of(nodes, ())
    for number in range(rng.randint(0, 2)):
        old = replace(pod, uid=f"old-{number}", name=f"old-{number}", constraints=PodConstraints())
        node = rng.choice(nodes)
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
