"""Rewards and policies."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from extender.api.contract.common import ListPage
from extender.plugins.host import PluginState
from leadsman.decision.policy import Policy


class RewardCell(Struct, frozen=True):
    """How pods of one type fared on one node.

    value: 0..1, what the score uses.
    reward_ratio: expected success, between lower_ratio and upper_ratio.
    blame_ratio: probability that the node is at fault.
    typical_ratio: success on the other nodes.
    samples: weight of the evidence.
    healthy, failed: trials, faded to now.
    kuberl: kubeRL's reward.
    incidents: cause → how many.
    age_seconds: since its last change.
    """

    value: float
    reward_ratio: float
    lower_ratio: float
    upper_ratio: float
    blame_ratio: float
    typical_ratio: float
    samples: float
    healthy: float
    failed: float
    kuberl: float
    incidents: Mapping[str, int]
    last_cause: str
    age_seconds: float


class RewardMatrix(Struct, frozen=True):
    """Pod types by nodes, those with the lowest value or else the most failures first.

    rule: the policy's reward rule.
    cells: a row for each pod type, with the nodes of this page; null: no evidence.
    """

    rule: str
    pod_types: Sequence[str]
    nodes: ListPage[str]
    cells: Sequence[Sequence[RewardCell | None]]


class PolicyRow(Struct, frozen=True):
    """A policy. hash: of its content. source: file or object. accepted: whether it is in use. problems: why not."""

    name: str
    kind: str
    hash: str
    source: str
    accepted: bool
    problems: Sequence[str]


class RunningPolicy(Struct, frozen=True):
    """The policy that decides now, and what its plugins do.

    hash: as an explanation has it. problem: why the file as it is now is not in use; "" when it is.
    """

    hash: str
    problem: str
    plugins: Sequence[PluginState]
    policy: Policy
