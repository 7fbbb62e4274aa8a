"""Which decisions are short enough for the event loop's own thread.

Handing a decision to a worker and its result back costs some 0.1 to 0.2 ms, more than a small decision itself. One that
is made at once takes no longer than reading the body and writing the answer, which the event loop does anyway: 2 ms at
5,000 nodes when many of them have just reported. All else, and whatever runs code that is not ours, gets a worker and a
deadline (docs/decisions/0061).
"""

from collections.abc import Sequence

from leadsman.cluster.devices.demand import NO_DEMAND
from leadsman.decision.delay.bounds import valid_bounds
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import PodInfo

MAX_BRIEF_NODES = 5_000
"""Of the request, and of the state."""

MAX_BRIEF_BOUNDS = 2
"""Of a pod. Each is to 16 nodes at most, and each of those costs 0.2 ms at 5,000 nodes, once for all pods."""


def is_brief(pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> bool:
    """Whether the decision takes some milliseconds at most, whatever the pod asks for."""
    return (
        max(len(nodes), len(inputs.snapshot.nodes)) <= MAX_BRIEF_NODES
        and pod.devices == NO_DEMAND
        and not inputs.policy.plugins.are_used
        and len(valid_bounds(pod)) <= MAX_BRIEF_BOUNDS
    )
