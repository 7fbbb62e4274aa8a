"""Placeholders hold each node's reserve: never too little while it changes, and no more than is worth a write."""

from collections.abc import Iterable, Sequence
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from leadsman.cluster.constraints import PodConstraints, Toleration
from leadsman.cluster.model import Cluster, ClusterNode, ClusterPod, cluster_of
from leadsman.cluster.resources import ZERO, Resources
from leadsman.kube.names import PLACEHOLDER_LABEL
from leadsman.planning.backups.backup_plan import Backup, BackupPlan
from leadsman.planning.backups.placeholders import (
    Coverage,
    CoverageState,
    CreatePlaceholder,
    DeletePlaceholder,
    PlaceholderAction,
    ResizePlaceholder,
    coverage_of,
    held_by,
    node_label,
    placeholders_by_node,
    plan_placeholders,
    plan_release,
)

MIB = 2**20
MAX_ROUNDS = 8
_NUMBERS = count()
NODE = ClusterNode("edge-1", allocatable=Resources(10**6, 10**6 * MIB, 1000))


amounts = st.builds(
    Resources,
    st.integers(0, 4000),
    st.integers(0, 4096).map(lambda mib: mib * MIB),
    st.integers(1, 5),
    st.sampled_from([{}, {"example.com/gpu": 1}, {"example.com/gpu": 3}]),
)


def reserve(amount: Resources) -> BackupPlan:
    return BackupPlan(reserves={"edge-1": amount})


def placeholder(name: str, requests: Resources, node: str = "edge-1") -> ClusterPod:
    labels = {"leadsman.dev/placeholder": "edge-1"}
    return ClusterPod(name, "leadsman-placeholders", name, node, requests=requests, labels=labels)


def executed(cluster: Cluster, actions: Iterable[PlaceholderAction]) -> Iterable[Cluster]:
    """The cluster after each of the actions."""
    for action in actions:
        match action:
            case CreatePlaceholder():
                name = f"new-{next(_NUMBERS)}"
                cluster = cluster.with_pod(placeholder(name, action.requests), action.node)
            case ResizePlaceholder():
                resized = replace(cluster.pods[action.uid], requests=action.requests)
                cluster = cluster.changed(pods={action.uid: resized})
            case DeletePlaceholder():
                cluster = cluster.without_pod(action.uid)
        yield cluster


def held(cluster: Cluster) -> Resources:
    return held_by(placeholders_by_node(cluster).get("edge-1", ()))


@given(sequence=st.lists(amounts, min_size=1, max_size=6), resize=st.booleans())
def test_the_reserve_is_held_after_one_round_and_nothing_is_left_to_do_after_a_few(
    sequence: Sequence[Resources], resize: bool
) -> None:
    cluster = cluster_of([NODE], ())
    for amount in sequence:
        rounds = 0
        while actions := plan_placeholders(cluster, reserve(amount), resize=resize):
            *_, cluster = executed(cluster, actions)
            rounds += 1
            assert amount.fits(held(cluster))
            assert rounds <= MAX_ROUNDS


@given(before=amounts, after=amounts, resize=st.booleans())
def test_at_no_step_is_less_held_than_both_reserves_have_in_common(
    before: Resources, after: Resources, resize: bool
) -> None:
    cluster = cluster_of([NODE], ())
    *_, cluster = executed(cluster, plan_placeholders(cluster, reserve(before), resize=resize))
    both = Resources(
        min(before.cpu_millis, after.cpu_millis),
        min(before.memory_bytes, after.memory_bytes),
        min(before.pods, after.pods),
        {"example.com/gpu": min(r.extended.get("example.com/gpu", 0) for r in (before, after))},
    )
    for _ in range(2):
        for step in executed(cluster, plan_placeholders(cluster, reserve(after), resize=resize)):
            cluster = step
            assert both.fits(held(cluster))


def test_a_placeholder_that_waits_for_room_is_not_created_twice_and_holds_nothing_yet() -> None:
    waiting = placeholder("hold", Resources(100, 100 * MIB, 1), node="")
    cluster = cluster_of([NODE], [waiting])
    assert plan_placeholders(cluster, reserve(waiting.requests), resize=True) == []
    assert held(cluster) == ZERO


def test_those_of_a_node_that_is_gone_are_deleted() -> None:
    pod = placeholder("hold", Resources(100, 100 * MIB, 1))
    [action] = plan_placeholders(cluster_of([], [pod]), reserve(pod.requests), resize=True)
    assert action == DeletePlaceholder("hold", "leadsman-placeholders", "hold", "node edge-1 is gone")


def test_a_new_one_tolerates_what_the_pods_tolerate_that_it_stands_for() -> None:
    toleration = Toleration("edge", "Exists")
    pod = ClusterPod("web", "shop", "web", "edge-2", constraints=PodConstraints(tolerations=(toleration,)))
    plan = BackupPlan({"web": Backup("edge-1", ())}, {"edge-1": Resources(100, 100 * MIB, 1)})
    [action] = plan_placeholders(cluster_of([NODE], [pod]), plan, resize=True)
    assert isinstance(action, CreatePlaceholder)
    assert action.tolerations == (toleration,)


@given(reserved=amounts, share=st.integers(1, 4), resize=st.booleans())
def test_a_release_frees_what_is_asked(reserved: Resources, share: int, resize: bool) -> None:
    cluster = cluster_of([NODE], ())
    *_, cluster = executed(cluster, plan_placeholders(cluster, reserve(reserved), resize=resize))
    asked = Resources(
        reserved.cpu_millis // share, reserved.memory_bytes // share, max(reserved.pods // share, 1), reserved.extended
    )
    before = held(cluster)
    actions = plan_release(placeholders_by_node(cluster)["edge-1"], replace(asked, pods=1), resize=resize)
    *_, cluster = [cluster, *executed(cluster, actions)]
    assert replace(asked, pods=1).fits(before - held(cluster))


def test_with_resize_a_release_frees_no_more_than_is_asked() -> None:
    pods = [placeholder(name, Resources(100, 100 * MIB, 1)) for name in ("a", "b", "c")]
    actions = plan_release(pods, Resources(150, 160 * MIB, 1), resize=True)
    assert [type(action) for action in actions] == [DeletePlaceholder, ResizePlaceholder]
    why = "the room is released for a pod whose node is dead"
    assert actions[1] == ResizePlaceholder("c", "leadsman-placeholders", "c", Resources(50, 40 * MIB, 1), why)


def test_a_name_too_long_for_a_label_is_hashed_and_recognised() -> None:
    long = "edge-" + "x" * 80
    pod = replace(placeholder("hold", Resources(100, 100 * MIB, 1), long), labels={PLACEHOLDER_LABEL: node_label(long)})
    cluster = cluster_of([replace(NODE, name=long)], [pod])
    assert list(placeholders_by_node(cluster)) == [long]


# A pod is covered when its room is held, and not a moment earlier.

ROOM = Resources(100, 2**30, 1)
PLAN = BackupPlan({"web": Backup("edge-1", ())}, {"edge-1": ROOM})


@pytest.mark.parametrize(
    ("placeholder_on", "problems", "said", "state"),
    [
        ("edge-1", {}, "", CoverageState.COVERED),
        ("", {}, "node edge-1 does not hold its room yet: cpu, memory, pods missing", CoverageState.WAITING),
        (None, {"edge-1": "quota exceeded"}, "quota exceeded", CoverageState.UNCOVERED),
    ],
)
def test_a_pod_is_covered_once_the_placeholder_is_bound(
    placeholder_on: str | None, problems: dict[str, str], said: str, state: CoverageState
) -> None:
    holding = [] if placeholder_on is None else [placeholder("hold", ROOM, placeholder_on)]
    assert coverage_of(cluster_of([NODE], holding), PLAN, problems) == {"web": Coverage("edge-1", said, state)}
