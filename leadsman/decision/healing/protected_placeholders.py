"""Which placeholders a pod may not evict: those that hold room for others.

A placeholder gives way to the pods that it stands for: those of an owner with a hold on its node, or with a backup
there. Nobody asks which of the owner's pods it is: one too many takes the room of its own siblings.
"""

from collections.abc import Collection, Mapping

from leadsman.decision.healing.healing_filter import NAME
from leadsman.decision.healing.model import never_withheld
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import PodInfo, Refusal

PROTECTED = Refusal(NAME, "the pod would evict a placeholder, which holds room for other pods")


def protected_placeholders(
    pod: PodInfo, victims: Mapping[str, Collection[str]], inputs: DecisionInputs
) -> Mapping[str, frozenset[str]]:
    """Node → the placeholders among its victims that stay, by UID; nodes on which the pod may evict are absent.

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
