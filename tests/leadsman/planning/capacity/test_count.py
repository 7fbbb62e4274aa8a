"""The count of a small cluster is what trying everything finds, and what it packs passes the judges."""

import contextlib

import pytest
from msgspec.structs import replace

from leadsman.cluster.constraints import LabelSelector, PodAffinityTerm, PodConstraints, TopologySpread
from leadsman.cluster.model import ClusterNode, ClusterPod, cluster_of
from leadsman.cluster.resources import Resources
from leadsman.planning.backups.backup_plan import BackupSettings
from leadsman.planning.backups.reserve import HOSTNAME_LABEL
from leadsman.planning.capacity.count import broken, count_together
from leadsman.planning.capacity.fit_model import PodTemplate, model_capacity
from leadsman.planning.situation import Situation
from leadsman.simulator.solver.cp_sat import exact_packing
from tests.leadsman.planning.backups.random_clusters import RACK_LABEL, inputs_of
from tests.leadsman.planning.capacity.small_clusters import EveryPacking, TooManyPackings, small_case
from tests.leadsman.planning.moves.movable_pods import of_app

SETTINGS = BackupSettings(rack_label=RACK_LABEL)


@pytest.mark.parametrize("first_seed", range(0, 100, 50))
def test_a_count_equals_trying_everything(first_seed: int) -> None:
    tried = 0
    for seed in range(first_seed, first_seed + 50):
        case, templates = small_case(seed)
        model = model_capacity(Situation(*case), templates, SETTINGS)
        count = count_together(model, exact_packing)
        assert not broken(model, count.packing), f"seed {seed}"
        assert count.sets == count.at_most, f"seed {seed}: {count.sets} to {count.at_most}"
        if not any(model.cautions):
            assert exact_packing(model.problem, 1, count.sets + 3)[1] == count.sets, f"seed {seed}"
        with contextlib.suppress(TooManyPackings):
            assert EveryPacking(case, templates, model.plan).most_sets(count.sets + 1) == count.sets, f"seed {seed}"
            tried += 1
    assert tried > 40


def test_templates_that_are_bound_to_each_other_are_counted_together() -> None:
    """Three nodes of two slots; a and b are near each other, c is far from both: two sets on a and b."""
    nodes = [ClusterNode(name, uid=name, allocatable=Resources(pods=2), ready=True) for name in ("a", "b", "c")]
    ms = {("a", "b"): 1.0, ("a", "c"): 90.0, ("b", "c"): 90.0}
    matrix = {x: {y: ms.get((min(x, y), max(x, y)), 0.0) for y in "abc"} for x in "abc"}
    web = ClusterPod("w", "shop", "w", workload="deployment/web", owner_uid="w", labels={"delay_db": "5"})
    web = replace(web, annotations={"leadsman.dev/backup": "none"})
    db = ClusterPod("d", "shop", "d", workload="deployment/db", owner_uid="d")
    cluster = cluster_of(nodes, ())
    model = model_capacity(
        Situation(cluster, inputs_of(cluster, matrix)), [PodTemplate("w", web), PodTemplate("d", db)], SETTINGS
    )
    count = count_together(model, exact_packing)
    assert any(model.cautions)
    assert not broken(model, count.packing)
    assert (count.sets, count.at_most) == (2, 3), "more is not proven not to fit"


def test_where_racks_are_unknown_no_pod_that_is_to_survive_one_fits() -> None:
    nodes = [ClusterNode(name, uid=name, allocatable=Resources(pods=2), ready=True) for name in ("a", "b")]
    web = ClusterPod("w", "shop", "w", owner_uid="w", owner_kind="ReplicaSet", labels={"delay_a": "5"})
    web = replace(web, annotations={"leadsman.dev/backup": "rack"})
    cluster = cluster_of(nodes, ())
    situation = Situation(cluster, inputs_of(cluster, {x: dict.fromkeys("ab", 1.0) for x in "ab"}))
    assert count_together(model_capacity(situation, [PodTemplate("w", web)], SETTINGS)).at_most == 0


def near_or_apart(*names: str) -> tuple[Situation, ClusterPod, PodAffinityTerm]:
    """Nodes with nine slots, a pod of app web, and a term that means such pods on one node."""
    slots = Resources(pods=9)
    nodes = [ClusterNode(each, labels={HOSTNAME_LABEL: each}, allocatable=slots, ready=True) for each in names]
    cluster = cluster_of(nodes, ())
    web = ClusterPod("web", "shop", "web", labels={"app": "web"}, owner_uid="web")
    return Situation(cluster, inputs_of(cluster, {})), web, PodAffinityTerm(HOSTNAME_LABEL, of_app("web"), ("shop",))


def test_pods_that_only_another_template_keeps_away_from_share_a_node() -> None:
    """`alone` on one node and three `web` on the other are one set."""
    situation, web, term = near_or_apart("a", "b")
    alone = replace(web, uid="alone", name="alone", constraints=PodConstraints(anti_affinity=(term,)))
    model = model_capacity(situation, [PodTemplate("alone", alone), PodTemplate("web", web, 3)], SETTINGS)
    count = count_together(model, exact_packing)
    assert (count.sets, count.at_most) == (1, 2), "more is not proven not to fit"


def test_pods_that_wait_for_each_other_do_not_fit() -> None:
    situation, web, near_web = near_or_apart("a")
    near_db = replace(near_web, selector=of_app("db"))
    db = replace(web, uid="db", name="db", labels={"app": "db"}, constraints=PodConstraints(affinity=(near_web,)))
    web = replace(web, constraints=PodConstraints(affinity=(near_db,)))
    model = model_capacity(situation, [PodTemplate("web", web), PodTemplate("db", db)], SETTINGS)
    assert count_together(model, exact_packing).sets == 0, "neither is ever the first"


def test_a_spread_with_an_empty_selector_limits_nothing() -> None:
    """countPodsMatchSelector of kube-scheduler counts no pod for one, though it matches every pod."""
    situation, web, _ = near_or_apart("a", "b")
    busy = {f"busy-{number}": replace(web, uid=f"busy-{number}", node="a") for number in range(8)}
    situation = situation.changed(busy)
    spread = PodConstraints(spread=(TopologySpread(HOSTNAME_LABEL, 1, LabelSelector()),))
    count = count_together(model_capacity(situation, [PodTemplate("web", replace(web, constraints=spread))], SETTINGS))
    assert (count.sets, count.at_most) == (10, 10)
