"""Cloud nodes first, for pods that no delay bound ties to a place: the edge stays free for those that need it.

A cloud node is labelled kubernetes.io/role=cloud, or the policy names it or its zone. Whether a pod still fits there is
the scheduler's business.
"""

from collections.abc import Sequence, Set
from fnmatch import fnmatchcase
from functools import lru_cache, partial
from itertools import compress

from leadsman.decision.columns import Column
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import Evidence, PluginScore, PodInfo
from leadsman.decision.policy import CloudPolicy
from leadsman.state.snapshot import NodeState

NAME = "cloud"

CLOUD_ROLE = "cloud"


class CloudScore:
    name = NAME

    def score(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> PluginScore | None:
        """No say in a pod with bounds, nor where no candidate is a cloud node."""
        settings = inputs.policy.scores.cloud
        if not settings.weight or pod.has_delay_bounds:
            return None
        found = _cloud_nodes(nodes, settings, inputs)
        if not found:
            return None
        return PluginScore(NAME, settings.weight, Column(nodes, [1.0 if node in found else 0.0 for node in nodes]))

    def evidence(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> Evidence:
        """Nothing that the values do not tell."""
        return Evidence()


def _cloud_nodes(nodes: Sequence[str], settings: CloudPolicy, inputs: DecisionInputs) -> Set[str]:
    found = {node for node in nodes if inputs.node_roles.get(node) == CLOUD_ROLE} if inputs.node_roles else set[str]()
    if settings.nodes:
        found.update(compress(nodes, map(partial(_matches, settings.nodes), nodes)))
    if settings.zones:
        zoned = inputs.cache.per_node(NAME, settings.zones, partial(_in_zone, settings.zones), inputs.snapshot)
        found.update(filter(zoned.__contains__, nodes))
    return found


def _in_zone(patterns: tuple[str, ...], state: NodeState) -> bool | None:
    """None, as a column leaves it out, when the node's agent names no such zone."""
    return (state.identity is not None and _matches(patterns, state.identity.zone)) or None


@lru_cache(maxsize=16_384)
def _matches(patterns: tuple[str, ...], name: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
