"""Dead nodes refuse pods with delay bounds, held room refuses strangers, and nothing is withheld from critical pods."""

from hypothesis import given
from hypothesis import strategies as st

from leadsman.decision.decide import decide, filter_nodes
from leadsman.decision.explain import explain, format_explanation
from leadsman.decision.inputs import CRITICAL_PRIORITY, DecisionInputs, RoomHold, SelfHealing
from leadsman.decision.model import PodInfo
from leadsman.decision.policy import Policy
from leadsman.decision.self_healing import ELSEWHERE, HELD, NAME, HealingFilter, protected_placeholders
from leadsman.runtime.text_table import one_line
from leadsman.state.snapshot import Snapshot
from tests.leadsman.decision import make

NOW = 100.0
NODES = ["edge-1", "edge-2", "edge-3"]
DEAD = SelfHealing(refused={"edge-1": "4 of 4 peers lost it"}, read_at=NOW - 7.0)
HELD_ROOM = SelfHealing(holds={"edge-2": (RoomHold("rs-web", NOW + 45.0),)})
PLAIN = PodInfo("shop", "plain-1", workload="deployment/plain", owner_uid="rs-plain")
BOUND = PodInfo("shop", "cam-1", labels={"delay_edge-3": "5"}, workload="deployment/cam", owner_uid="rs-cam")
RETURNING = PodInfo("shop", "web-2", workload="deployment/web", owner_uid="rs-web")


def inputs(healing: SelfHealing, now: float = NOW) -> DecisionInputs:
    return DecisionInputs(Snapshot(), Policy(), now, self_healing=healing)


def refused(pod: PodInfo, healing: SelfHealing, now: float = NOW) -> dict[str, str]:
    refusals = HealingFilter().refusals(pod, NODES, inputs(healing, now))
    assert {refusal.plugin for refusal in refusals.values()} <= {NAME}
    return {node: refusal.reason for node, refusal in refusals.items()}


def test_a_dead_node_is_refused_although_its_delays_are_still_good() -> None:
    """Its last windows count for seconds after its death."""
    facts = make.facts({"edge-3": make.state({"edge-1": 1.0, "edge-2": 1.0})}, self_healing=DEAD)
    kept, why = filter_nodes(BOUND, NODES, facts)
    assert (kept, list(why)) == (("edge-2", "edge-3"), ["edge-1"])


def test_a_pod_that_is_being_moved_may_go_nowhere_else_while_its_room_is_held() -> None:
    moving = SelfHealing(holds={"edge-2": (RoomHold("rs-web", NOW + 45.0, only=True),)})
    assert refused(RETURNING, moving) == {"edge-1": ELSEWHERE.reason, "edge-3": ELSEWHERE.reason}
    assert refused(RETURNING, moving, NOW + 45.0) == {}
    assert refused(PLAIN, moving) == {"edge-2": HELD.reason}


def test_explain_says_why_for_how_long_and_how_old_the_state_is() -> None:
    both = SelfHealing(DEAD.refused, HELD_ROOM.holds, read_at=NOW - 7.0)
    text = format_explanation(explain(decide(BOUND, NODES, inputs(both)), inputs(both)))
    assert {"HELD_SECONDS", "SELF_HEALING_AGE_SECONDS"} <= set(text.splitlines()[2].split())
    by_node = {row.split()[0]: row for row in text.splitlines()[3:] if row[:1].strip()}
    assert "4 of 4 peers lost it" in text
    assert " 45 " in by_node["edge-2"]


PRIORITIES = [-10, -1, 0, 1000, CRITICAL_PRIORITY - 1, CRITICAL_PRIORITY]

owners = st.sampled_from(["", "rs-web", "rs-cam", "rs-plain"])
pods = st.builds(
    PodInfo,
    st.just("shop"),
    st.just("p"),
    labels=st.sampled_from([{}, {"delay_edge-3": "5"}]),
    workload=st.sampled_from(["deployment/web", "daemonset/proxy"]),
    priority=st.sampled_from(PRIORITIES),
    owner_uid=owners,
)
holds = st.builds(RoomHold, owners.filter(bool), st.floats(NOW - 10, NOW + 10))
views = st.builds(
    SelfHealing,
    refused=st.dictionaries(st.sampled_from(NODES), st.text(min_size=1)),
    holds=st.dictionaries(st.sampled_from(NODES), st.lists(holds, max_size=3).map(tuple)),
)


@given(pods, views, st.permutations(NODES))
def test_what_may_refuse_does_and_nothing_else(pod: PodInfo, healing: SelfHealing, nodes: list[str]) -> None:
    refusals = HealingFilter().refusals(pod, nodes, inputs(healing))
    exempt = pod.priority >= CRITICAL_PRIORITY or pod.workload == "daemonset/proxy"
    for node in nodes:
        active = {hold.owner_uid for hold in healing.holds.get(node, ()) if hold.until > NOW}
        held = bool(active) and pod.owner_uid not in active and not exempt
        dead = bool(pod.labels) and node in healing.refused
        assert (node in refusals) == (held or dead)
        said = f"self-healing keeps pods with delay bounds off the node: {one_line(healing.refused.get(node, ''))}"
        assert node not in refusals or refusals[node].reason == (said if dead else HELD.reason)


# A placeholder gives way to the pods that it stands for and to critical ones, and to nobody else.

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


def protected(pod: PodInfo, now: float = NOW) -> dict[str, frozenset[str]]:
    return dict(protected_placeholders(pod, VICTIMS, inputs(HEALING, now)))


def test_a_placeholder_gives_way_to_the_owner_of_a_hold_there_until_the_hold_ends() -> None:
    returning = PodInfo("shop", "cam-2", owner_uid="rs-cam")
    assert protected(returning) == {"edge-2": {"holder-2"}}
    assert protected(returning, now=NOW + 30.0) == ALL


uids = st.sampled_from([f"u{number}" for number in range(6)])


@given(
    st.sampled_from(PRIORITIES),
    st.sampled_from(["", "rs-web", "rs-cam", "rs-plain"]),
    st.frozensets(uids),
    st.dictionaries(st.sampled_from(["edge-1", "edge-2"]), st.lists(uids)),
)
def test_who_may_evict_evicts_no_placeholder_of_others(
    priority: int, owner: str, placeholders: frozenset[str], victims: dict[str, list[str]]
) -> None:
    healing = SelfHealing(HEALING.refused, HEALING.holds, HEALING.backup_owners, placeholders)
    pod = PodInfo("shop", "p", priority=priority, owner_uid=owner)
    kept = protected_placeholders(pod, victims, inputs(healing))
    for node, doomed in victims.items():
        may = priority == CRITICAL_PRIORITY or (owner in ("rs-web", "rs-cam") and node == "edge-1")
        assert kept.get(node, frozenset()) == (frozenset() if may else placeholders & set(doomed))
