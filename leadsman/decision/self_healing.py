"""Keeps pods with delay bounds off dead and suspect nodes, and pods out of room that is held for others.

A pod that is being moved is kept off all nodes but the one that it is moved to: without that, kube-scheduler could put
it back to where it was evicted.

A node with a hold refuses every pod of another owner for the time of the hold, also one that would fit beside the held
room: an extender does not know what is free on a node, and it is for seconds, for three minutes at most while the pod
that is to come has no node.
"""

from collections.abc import Collection, Mapping, Sequence

from leadsman.decision.inputs import DecisionInputs, never_withheld
from leadsman.decision.model import Evidence, PodInfo, Refusal

NAME = "self-healing"

HELD = Refusal(NAME, "room on the node is held for other pods by a failover or a move")
ELSEWHERE = Refusal(NAME, "the pod is being moved, and room is held for it on another node")


class HealingFilter:
    """Refuses nodes for self-healing; it refuses nothing while the controller publishes nothing."""

    name = NAME

    def refusals(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> Mapping[str, Refusal]:
        refused: dict[str, Refusal] = {}
        healing = inputs.self_healing
        may_wait = healing.holds and pod.owner_uid and not never_withheld(pod)
        if only := healing.only_nodes(pod.owner_uid, inputs.now) if may_wait else None:
            refused |= dict.fromkeys((node for node in nodes if node not in only), ELSEWHERE)
        if held := _held_from(pod, inputs):
            refused |= dict.fromkeys((node for node in nodes if node in held), HELD)
        if pod.has_delay_bounds:
            why, off = inputs.self_healing.refused, "self-healing keeps pods with delay bounds off the node"
            refused |= {node: Refusal(NAME, f"{off}: {why[node]}") for node in nodes if node in why}
        return refused

    def evidence(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> Evidence:
        """Returns for how long the room is held, and how old the state is that refuses nodes."""
        measured: dict[str, Mapping[str, float]] = {}
        if held := _held_from(pod, inputs):
            measured["held_seconds"] = {node: held[node] - inputs.now for node in nodes if node in held}
        read_at, unreachable = inputs.self_healing.read_at, inputs.self_healing.refused
        if pod.has_delay_bounds and unreachable and read_at is not None:
            refused = (node for node in nodes if node in unreachable)
            measured["self_healing_age_seconds"] = dict.fromkeys(refused, inputs.now - read_at)
        return Evidence(measured)


def _held_from(pod: PodInfo, inputs: DecisionInputs) -> Mapping[str, float]:
    """Maps each node to the moment until which its room is held for others only."""
    healing = inputs.self_healing
    if never_withheld(pod):
        return {}
    owners_by_node = {node: healing.held_until(node, inputs.now) for node in healing.holds}
    return {node: max(held.values()) for node, held in owners_by_node.items() if held and pod.owner_uid not in held}


# Which placeholders a pod may not evict: those that hold room for others.
#
# A placeholder gives way to the pods that it stands for: those of an owner with a hold on its node, or with a backup
# there. Nobody asks which of the owner's pods it is: one too many takes the room of its own siblings.

PROTECTED = Refusal(NAME, "the pod would evict a placeholder, which holds room for other pods")


def protected_placeholders(
    pod: PodInfo, victims: Mapping[str, Collection[str]], inputs: DecisionInputs
) -> Mapping[str, frozenset[str]]:
    """Maps each node to those of its victims, by UID, that are placeholders and must stay; nodes that have none are
    absent.

    victims: node → UIDs of the pods that would be evicted there.
    """
    placeholders = inputs.self_healing.placeholders
    if not placeholders or never_withheld(pod):
        return {}
    return {
        node: placeholders.intersection(uids)
        for node, uids in victims.items()
        if not placeholders.isdisjoint(uids) and not _stands_for(node, pod, inputs)
    }


def _stands_for(node: str, pod: PodInfo, inputs: DecisionInputs) -> bool:
    healing = inputs.self_healing
    return bool(pod.owner_uid) and (
        pod.owner_uid in healing.backup_owners.get(node, ()) or pod.owner_uid in healing.held_until(node, inputs.now)
    )
