"""What to add and what a failure costs, each held against the cluster where it is so."""

from msgspec.structs import replace

from leadsman.cluster.model import cluster_of
from leadsman.cluster.node import ClusterNode
from leadsman.cluster.pod import ClusterPod
from leadsman.cluster.resources import Resources
from leadsman.planning.backups.backup_plan import BackupScope, BackupSettings
from leadsman.planning.backups.planner import plan_backups
from leadsman.planning.capacity.consequences import additions, losses
from leadsman.planning.capacity.count import count_together
from leadsman.planning.capacity.fit_model import PodTemplate, model_capacity
from leadsman.planning.situation import Situation
from tests.leadsman.planning.backups.random_clusters import MIB, RACK_LABEL, Case, inputs_of, random_case
from tests.leadsman.planning.capacity.small_clusters import small_case

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
    labels = {**original.labels, "kubernetes.io/hostname": ""}
    nodes = {
        name: replace(original, name=name, uid=name, labels={**labels, "kubernetes.io/hostname": name})
        for name in names
    }
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
    nodes = [ClusterNode(name, allocatable=Resources(memory_bytes=4 * MIB, pods=9), ready=True) for name in ("a", "b")]
    sizes = {"small": 1, "large": 3, "bare": 1}
    pods = [
        ClusterPod(
            name, "shop", name, "a", owner_uid="" if name == "bare" else "x", requests=Resources(0, size * MIB, 1)
        )
        for name, size in sizes.items()
    ]
    full = ClusterPod("b", "shop", "b", "b", owner_uid="x", requests=Resources(0, 2 * MIB, 1))
    cluster = cluster_of([replace(node, allocatable=Resources(0, 6 * MIB, 9)) for node in nodes], [*pods, full])
    template = PodTemplate("t", ClusterPod("t", "a", "t", requests=Resources(0, MIB, 1)))
    model = model_capacity(Situation(cluster, inputs_of(cluster, {})), [template], SETTINGS)
    loss = {each.failure: each for each in losses(model)}
    assert loss["node a"].lost == {"shop/bare": "it has no controller that would make it again"}
    assert (loss["node a"].fallen, loss["node a"].fits, loss["node a"].scope) == (3, (0,), BackupScope.NODE)
    assert (loss["node b"].lost, loss["node b"].fits) == ({"shop/b": "no node that may have it has room"}, (1,))


def test_a_covered_pod_is_never_lost() -> None:
    for seed in range(60):
        case = random_case(seed)
        model = model_capacity(Situation(*case), [PodTemplate("t", ClusterPod("t", "a", "t"))], SETTINGS)
        covered = {f"shop/{case.cluster.pods[uid].name}": each.domains for uid, each in model.plan.backups.items()}
        for loss in losses(model):
            for pod in loss.lost:
                assert loss.failure not in map(str, covered.get(pod, ())), f"seed {seed}"
