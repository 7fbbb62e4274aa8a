"""A placeholder gives way to the pods that it stands for and to critical ones, and to nobody else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadsman.decision.inputs import CRITICAL_PRIORITY, DecisionInputs, RoomHold, SelfHealing
from leadsman.decision.model import PodInfo
from leadsman.decision.policy import Policy
from leadsman.decision.self_healing import protected_placeholders
from leadsman.state.snapshot import Snapshot

NOW = 100.0
HEALING = SelfHealing(
    holds={"edge-1": (RoomHold("rs-cam", NOW + 30.0),)},
    backup_owners={"edge-1": frozenset({"rs-web"})},
    placeholders=frozenset({"holder-1", "holder-1b", "holder-2"}),
)
VICTIMS = {
    "edge-1": ["ordinary", "holder-1", "holder-1b"],
    "edge-2": ["holder-2"],
    "edge-3": ["ordinary-3"],
    "edge-4": [],
}
ALL = {"edge-1": {"holder-1", "holder-1b"}, "edge-2": {"holder-2"}}


def protected(pod: PodInfo, healing: SelfHealing = HEALING, now: float = NOW) -> dict[str, frozenset[str]]:
    inputs = DecisionInputs(Snapshot(), Policy(), now, self_healing=healing)
    return dict(protected_placeholders(pod, VICTIMS, inputs))


@pytest.mark.parametrize("priority", [-10, 0, 1000, CRITICAL_PRIORITY - 1])
@pytest.mark.parametrize("owner", ["", "rs-plain"])
def test_no_placeholder_gives_way_to_a_stranger(priority: int, owner: str) -> None:
    assert protected(PodInfo("shop", "p", priority=priority, owner_uid=owner)) == ALL


def test_a_placeholder_gives_way_to_the_owner_of_a_hold_there_until_the_hold_ends() -> None:
    returning = PodInfo("shop", "cam-2", owner_uid="rs-cam")
    assert protected(returning) == {"edge-2": {"holder-2"}}
    assert protected(returning, now=NOW + 30.0) == ALL


uids = st.sampled_from([f"u{number}" for number in range(6)])


@given(
    st.sampled_from([0, CRITICAL_PRIORITY]),
    st.sampled_from(["", "rs-web", "rs-cam"]),
    st.frozensets(uids),
    st.dictionaries(st.sampled_from(["edge-1", "edge-2"]), st.lists(uids)),
)
def test_who_may_evict_evicts_no_placeholder_of_others(
    priority: int, owner: str, placeholders: frozenset[str], victims: dict[str, list[str]]
) -> None:
    healing = SelfHealing(HEALING.refused, HEALING.holds, HEALING.backup_owners, placeholders)
    pod = PodInfo("shop", "p", priority=priority, owner_uid=owner)
    kept = protected_placeholders(pod, victims, DecisionInputs(Snapshot(), Policy(), NOW, self_healing=healing))
    for node, doomed in victims.items():
        may = priority == CRITICAL_PRIORITY or (bool(owner) and node == "edge-1")
        assert kept.get(node, frozenset()) == (frozenset() if may else placeholders & set(doomed))
