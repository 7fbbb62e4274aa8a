"""A covered pod survives each failure it is covered against; an uncovered one says why."""

from itertools import combinations
from typing import Any

import pytest
from msgspec.structs import replace

from leadsman.cluster.constraints import PodConstraints, TopologySpread
from leadsman.cluster.model import ZONE_LABEL, Cluster, ClusterNode, ClusterPod, Quota, cluster_of
from leadsman.cluster.resources import ZERO, Resources
from leadsman.planning.backups.backup_plan import Backup, BackupPlan, BackupSettings, Uncovered, broken_promises
from leadsman.planning.backups.planner import plan_backups
from leadsman.planning.backups.reserve import two_failures
from leadsman.planning.situation import Situation
from leadsman.state.snapshot import Snapshot
from tests.leadsman.decision import make
from tests.leadsman.planning.backups.random_clusters import MIB, RACK_LABEL, inputs_of, random_case
from tests.leadsman.planning.moves.movable_pods import of_app, owned_pod

SETTINGS = BackupSettings(rack_label=RACK_LABEL)
NEAR, FAR = 1.0, 50.0


@pytest.mark.parametrize("first_seed", range(0, 160, 40))
@pytest.mark.parametrize("constrained", [False, True])
def test_no_covered_pod_of_random_clusters_is_lost_in_any_single_failure(first_seed: int, constrained: bool) -> None:
    covered = 0
    # 5266: the pod that a backup is bound to breaks its own bound where it is, and keeps it on its backup.
    for seed in (5266, *range(first_seed, first_seed + 40)):
        situation = Situation(*random_case(seed, constrained=constrained))
        plan = plan_backups(situation, SETTINGS)
        assert not broken_promises(situation, plan, RACK_LABEL), f"seed {seed}"
        covered += len(plan.backups)
    assert covered > 30


def test_a_backup_is_taken_back_that_pods_covered_later_leave_no_place() -> None:
    """web-1 is spread over zones and covered first; its siblings, which nothing spreads, can only go to edge-2's."""
    cluster = cluster_with({"edge-1": ["web-1", "web-2", "web-3"], "edge-2": [], "edge-3": []})
    zones = {"edge-1": "a", "edge-2": "a", "edge-3": "b"}
    labelled = {name: replace(cluster.nodes[name], labels={ZONE_LABEL: zone}) for name, zone in zones.items()}
    labels = {"app": "web", "delay_edge-2": "10"}
    siblings = {uid: replace(cluster.pods[uid], labels=labels) for uid in ("web-2", "web-3")}
    spread = TopologySpread(ZONE_LABEL, 1, of_app("web"))
    first = replace(
        cluster.pods["web-1"],
        labels={"app": "web", "delay_edge-1": "10"},
        requests=Resources(100, 2048 * MIB, 1),
        constraints=PodConstraints(spread=(spread,)),
    )
    cluster = cluster.changed(nodes=labelled, pods={"web-1": first, **siblings})
    matrix = distances(cluster, {("edge-1", "edge-2"), ("edge-1", "edge-3")})
    plan = plan_backups(Situation(cluster, inputs_of(cluster, matrix)), SETTINGS)
    found = {uid: each.node for uid, each in plan.backups.items()}
    assert found == {"web-1": "edge-3", "web-2": "edge-2", "web-3": "edge-2"}


def test_room_is_shared_between_failures_that_do_not_happen_together() -> None:
    cluster = cluster_with({"edge-1": ["web-1"], "edge-2": ["web-2"], "edge-3": []})
    cordoned = {name: replace(cluster.nodes[name], unschedulable=True) for name in ("edge-1", "edge-2")}
    plan = plan_for(cluster.changed(nodes=cordoned))
    assert {backup.node for backup in plan.backups.values()} == {"edge-3"}
    assert plan.reserves["edge-3"].memory_bytes == 1024 * MIB


def test_pairs_of_nodes_that_fail_at_once_are_counted_where_what_they_bring_has_no_room() -> None:
    losing = 0
    for seed in range(60):
        cluster, inputs = random_case(seed, pods=20)
        plan = plan_backups(Situation(cluster, inputs), SETTINGS)
        expected = [pair for pair in combinations(cluster.nodes, 2) if _loses(cluster, plan, set(pair))]
        found = two_failures(cluster, plan.backups, plan.reserves)
        assert (found.losing, bool(found.lost)) == (len(expected), bool(expected)), f"seed {seed}"
        assert not found.worst or _loses(cluster, plan, set(found.worst))
        losing += found.losing
    assert losing > 100


def _loses(cluster: Cluster, plan: BackupPlan, failing: set[str]) -> bool:
    falling = [(cluster.pods[uid], backup.node) for uid, backup in plan.backups.items()]
    falling = [(pod, to) for pod, to in falling if pod.node in failing]
    return any(
        to in failing or not sum((pod.requests for pod, at in falling if at == to), ZERO).fits(plan.reserves[to])
        for _, to in falling
    )


@pytest.mark.parametrize(
    ("fields", "near", "reason"),
    [
        ({}, ("edge-1",), "1 delay to edge-1 over 10 ms, 1 in the node that fails"),
        ({"owner_uid": "", "owner_kind": ""}, None, "it has no controller that would make it again"),
        (
            {"annotations": {"leadsman.dev/backup": "rack"}},
            None,
            "the rack of node edge-1 is unknown, so no node is known to be in another rack",
        ),
        (
            {"annotations": {"leadsman.dev/backup": "rak"}},
            None,
            'annotation leadsman.dev/backup: "rak" is not valid; use none, node, rack, zone',
        ),
    ],
)
def test_an_uncovered_pod_says_why(fields: dict[str, Any], near: tuple[str, ...] | None, reason: str) -> None:
    cluster = cluster_with({"edge-1": ["web-1"], "edge-2": []})
    plan = plan_for(cluster.changed(pods={"web-1": replace(cluster.pods["web-1"], **fields)}), near)
    assert plan.pods["web-1"] == Uncovered(reason)


def test_a_pod_bound_to_one_that_falls_without_a_backup_says_so() -> None:
    """The delays between the nodes are known: nothing is unmeasured."""
    cluster = cluster_with({"edge-1": ["db-1", "web-1"], "edge-2": [], "edge-3": []})
    web = replace(cluster.pods["web-1"], labels={"delay_db": "100"})
    plan = plan_for(cluster.changed(pods={"web-1": web}), ("edge-1",))
    assert plan.pods["web-1"] == Uncovered("2 deployment/db falls too, without a backup, 1 in the node that fails")


def test_a_pod_that_asks_for_another_zone_is_not_covered_in_its_own() -> None:
    cluster = cluster_with({"edge-1": ["web-1"], "edge-2": [], "edge-3": []})
    asking = replace(cluster.pods["web-1"], annotations={"leadsman.dev/backup": "zone"})
    zones = {"edge-1": "a", "edge-2": "a", "edge-3": "b"}
    labelled = {name: replace(cluster.nodes[name], labels={ZONE_LABEL: zone}) for name, zone in zones.items()}
    backup = plan_for(cluster.changed(nodes=labelled, pods={"web-1": asking})).pods["web-1"]
    assert isinstance(backup, Backup)
    assert backup.node == "edge-3"


def test_a_backup_that_still_holds_stays() -> None:
    cluster = cluster_with({"edge-1": ["web-1"], "edge-2": [], "edge-3": []})
    situation = Situation(cluster, inputs_of(cluster, distances(cluster)))
    for node in ("edge-2", "edge-3"):
        assert plan_backups(situation, SETTINGS, {"web-1": node}).backups["web-1"].node == node


@pytest.mark.parametrize(
    ("home", "near", "unhealthy", "backup"),
    [
        pytest.param("edge-1", set(), "edge-1", "edge-3", id="on a dead node a pod keeps its backup, unmeasured now"),
        pytest.param("edge-2", set(), "edge-1", "edge-3", id="bound to a dead node it keeps its backup too"),
        pytest.param("edge-1", None, "edge-3", "edge-2", id="an unhealthy node is nobody's backup"),
    ],
)
def test_backups_while_a_node_is_unhealthy(
    home: str, near: set[tuple[str, str]] | None, unhealthy: str, backup: str
) -> None:
    cluster = cluster_with({"edge-1": [], "edge-2": [], "edge-3": []} | {home: ["web-1"]})
    situation = Situation(cluster, inputs_of(cluster, distances(cluster, near)))
    plan = plan_backups(situation, SETTINGS, {"web-1": "edge-3"}, unhealthy={unhealthy})
    assert plan.backups["web-1"].node == backup


@pytest.mark.parametrize("state", ["stale", "provisional"])
@pytest.mark.parametrize("concerned", ["edge-1", "edge-2", "edge-3"])
def test_a_backup_stays_while_nobody_knows_whether_it_still_holds(state: str, concerned: str) -> None:
    """web-1 is on edge-2, bound to edge-1; its backup edge-3 would be too far. As when etcd is away."""
    cluster = cluster_with({"edge-1": [], "edge-2": ["web-1"], "edge-3": []})
    inputs = replace(inputs_of(cluster, distances(cluster, {("edge-1", "edge-2")})), now=make.NOW)
    snapshot = Snapshot({concerned: make.state({}, freshness=state)})
    for known, kept in ((Snapshot(), False), (snapshot, True)):
        plan = plan_backups(Situation(cluster, replace(inputs, snapshot=known)), SETTINGS, {"web-1": "edge-3"})
        assert (plan.backups["web-1"].node == "edge-3") is kept


def test_a_quota_without_room_for_another_pod_leaves_it_uncovered() -> None:
    """The dead pod goes on to count while it is being deleted."""
    quota = Quota("shop", "room", {"requests.memory": 3 * 1024 * MIB}, {"requests.memory": 2 * 1024 * MIB})
    cluster = replace(cluster_with({"edge-1": ["web-1", "web-2"], "edge-2": []}), quotas={("shop", "room"): quota})
    plan = plan_for(cluster)
    assert len(plan.backups) == 1
    [(_, reason)] = plan.uncovered
    assert "quota room leaves 1073741824 of requests.memory, and 2147483648 would be asked for" in reason


def cluster_with(pods_by_node: dict[str, list[str]]) -> Cluster:
    """Nodes of 4 cores and 8 GiB, pods of 1 GiB bound to edge-1 by 10 ms."""
    nodes = [ClusterNode(name, name, allocatable=Resources(4000, 8192 * MIB, 20), ready=True) for name in pods_by_node]
    return cluster_of(nodes, [_pod(name, node) for node, names in pods_by_node.items() for name in names])


def plan_for(cluster: Cluster, near: tuple[str, ...] | None = None) -> BackupPlan:
    """The plan where these nodes, by default all, are near each other and far from the others."""
    pairs = None if near is None else {(a, b) for a in near for b in near}
    return plan_backups(Situation(cluster, inputs_of(cluster, distances(cluster, pairs))), SETTINGS)


def distances(cluster: Cluster, near: set[tuple[str, str]] | None = None) -> dict[str, dict[str, float]]:
    """Round trips of 1 ms between near pairs, all of them by default, and of 50 ms between the others."""
    table = {a: dict.fromkeys(cluster.nodes, FAR) for a in cluster.nodes}
    for a in cluster.nodes:
        for b in cluster.nodes:
            if a == b or near is None or (a, b) in near or (b, a) in near:
                table[a][b] = NEAR
    return table


def _pod(name: str, node: str) -> ClusterPod:
    owner = name.partition("-")[0]
    return owned_pod(name, node, Resources(100, 1024 * MIB, 1), owner, labels={"delay_edge-1": "10"}, phase="Running")
