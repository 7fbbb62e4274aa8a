"""An anonymous snapshot has no name of the original, and gives the same decisions and plans under other names."""

from collections.abc import Mapping
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from leadsman.decision.decide import filter_nodes, score_nodes
from leadsman.planning.backups.bounds_after_failure import pod_info
from leadsman.planning.backups.model import Backup, BackupSettings
from leadsman.planning.backups.planner import plan_backups
from leadsman.planning.optimise.answer import plan_of_choices
from leadsman.planning.optimise.cluster_problem import model_cluster
from leadsman.planning.optimise.greedy import balanced, greedy_choices
from leadsman.simulator.generated_cluster.generate import generate
from leadsman.simulator.generated_cluster.spec import parse_spec
from leadsman.sources.cluster_snapshot.anonymous import anonymous
from leadsman.sources.cluster_snapshot.document import ClusterSnapshot
from leadsman.sources.cluster_snapshot.pseudonyms import pseudonyms
from leadsman.sources.cluster_snapshot.reading import read_snapshot
from leadsman.sources.cluster_snapshot.writing import snapshot_chunks
from leadsman.sources.delay.estimates_on_demand import EstimatesOnDemand
from tests.leadsman.sources.cluster_snapshot.random_snapshot import random_snapshot

SEEDS = st.integers(0, 10_000)


def written(snapshot: ClusterSnapshot) -> bytes:
    return b"".join(snapshot_chunks(snapshot))


def both(before: ClusterSnapshot, seed: int) -> tuple[ClusterSnapshot, ClusterSnapshot]:
    """The snapshot and the anonymous one, each as a plan reads it from its file."""
    read = (read_snapshot(written(each)) for each in (before, anonymous(before, Random(seed))))
    one, other = (replace(each, inputs=replace(each.inputs, estimates=EstimatesOnDemand(each.inputs))) for each in read)
    return one, other


def renaming(before: ClusterSnapshot, after: ClusterSnapshot) -> Mapping[str, str]:
    """Names of nodes and UIDs of pods → pseudonyms. Both files have them in the same order."""
    nodes = zip(before.cluster.nodes, after.cluster.nodes, strict=True)
    pods = zip(before.cluster.pods, after.cluster.pods, strict=True)
    return {**dict(nodes), **dict(pods), "": ""}


@given(SEEDS)
@settings(max_examples=60)
def test_no_name_of_the_original_is_in_the_bytes(seed: int) -> None:
    data = written(anonymous(random_snapshot(seed), Random(seed)))
    for name in (b"acme", b"paris", b"tokio", b"10.1.2.3", b"10.9.8.7"):
        assert name not in data
        assert name in b"acme paris tokio 10.1.2.3 10.9.8.7"


@pytest.mark.slow
@given(SEEDS)
@settings(max_examples=15)
def test_every_decision_is_the_same_up_to_the_names(seed: int) -> None:
    before, after = both(random_snapshot(seed), seed)
    name = renaming(before, after)
    for one, other in zip(before.cluster.pods.values(), after.cluster.pods.values(), strict=True):
        judged = filter_nodes(pod_info(one), list(before.cluster.nodes), before.inputs)
        anonymously = filter_nodes(pod_info(other), list(after.cluster.nodes), after.inputs)
        assert [name[node] for node in judged.kept] == list(anonymously.kept)
        scores = score_nodes(pod_info(one), judged.kept, before.inputs).scores
        assert {name[node]: score for node, score in scores.items()} == dict(
            score_nodes(pod_info(other), anonymously.kept, after.inputs).scores
        )


@pytest.mark.slow
@given(SEEDS)
@settings(max_examples=15)
def test_every_plan_is_the_same_up_to_the_names(seed: int) -> None:
    before, after = both(random_snapshot(seed), seed)
    name = renaming(before, after)
    assert renamed(places(before), name) == places(after)
    assert renamed(backups(before), name) == backups(after)


def test_a_plan_of_a_larger_cluster_is_the_same_up_to_the_names() -> None:
    spec = "zones=2,racks=3,nodes=4,spare=0.4,tainted=0.2,labelled=0.4,choosy=0.2,peers=6,placed=0.7,seed=9"
    before, after = both(ClusterSnapshot(*generate(parse_spec(spec))), 1)
    name = renaming(before, after)
    assert renamed(places(before), name) == places(after)
    assert len(places(before)) > 50


def places(snapshot: ClusterSnapshot) -> dict[str, tuple[str, str]]:
    """UID → node and backup, by the greedy optimiser; "": none."""
    modelled = model_cluster(snapshot.cluster, snapshot.inputs, BackupSettings())
    choices = balanced(modelled.problem, greedy_choices(modelled.problem, modelled.start))
    plan = plan_of_choices(modelled, choices)
    chosen = {uid: each.node for uid, each in plan.backups.pods.items() if isinstance(each, Backup)}
    return {uid: (pod.node, chosen.get(uid, "")) for uid, pod in plan.cluster.pods.items()}


def backups(snapshot: ClusterSnapshot) -> dict[str, tuple[str]]:
    """UID → backup, by the controller's planner."""
    plan = plan_backups(snapshot.cluster, snapshot.inputs, BackupSettings())
    return {uid: (each.node,) for uid, each in plan.backups.items()}


def renamed(plan: Mapping[str, tuple[str, ...]], name: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    return {name[uid]: tuple(name[node] for node in nodes) for uid, nodes in plan.items()}


def test_the_property_is_not_empty() -> None:
    """Some of the random clusters have plans in which pods get nodes and backups."""
    assert any(node and backup for seed in range(20) for node, backup in places(random_snapshot(seed)).values())


@given(SEEDS)
@settings(max_examples=20)
def test_two_files_of_one_cluster_share_no_pseudonym(seed: int) -> None:
    one, other = (anonymous(random_snapshot(seed), Random(salt)) for salt in (f"{seed} a", f"{seed} b"))
    assert not set(one.cluster.nodes) & set(other.cluster.nodes)


@given(st.sets(st.text()))
def test_pseudonyms_sort_as_the_names_do(names: set[str]) -> None:
    table = pseudonyms(names, Random(1))
    assert [table[name] for name in sorted(names)] == sorted(table.values())
    assert len(set(table.values())) == len(names)


def test_a_label_that_is_to_stay_keeps_its_key_and_not_its_value() -> None:
    after = anonymous(random_snapshot(1), Random(1), {"acme.io/slots"})
    labels = [node.labels for node in after.cluster.nodes.values()]
    assert all("acme.io/slots" in each for each in labels)
    assert not any("acme.io/disk" in each for each in labels)
