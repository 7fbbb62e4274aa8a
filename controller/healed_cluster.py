"""Shows self-healing's keepers the cluster, the health of its nodes, and the state that extenders follow."""

from collections.abc import Callable, Mapping

from controller.config_maps import Memory
from controller.keeper import Tools
from controller.settings import SelfHealingSettings
from leadsman.cluster.model import Cluster
from leadsman.planning.failover.node_verdict import NodeHealth, NodeVerdict
from leadsman.published.self_healing import SELF_HEALING, Hold, SelfHealingState
from leadsman.sources.cluster.cluster_follower import ClusterFollower

MAX_PODS_SHOWN = 200

MOVE_HOLD_PREFIX = "move of "


class HealedCluster:
    """Holds the cluster that self-healing keeps, and what is published of it.

    verdicts: on every node, by name.
    published: the state that extenders follow; recovery writes it.
    """

    def __init__(
        self, tools: Tools, settings: SelfHealingSettings, verdicts: Callable[[], Mapping[str, NodeVerdict]]
    ) -> None:
        self.settings, self.verdicts = settings, verdicts
        self.follower = ClusterFollower(tools.client)
        self.published = Memory(tools, SELF_HEALING, SelfHealingState())

    @property
    def current(self) -> Cluster | None:
        """Returns the cluster; None while it is not listed."""
        return self.follower.current

    @property
    def unhealthy(self) -> frozenset[str]:
        """Returns dead and suspect nodes."""
        return frozenset(name for name, verdict in self.verdicts().items() if verdict.state is not NodeHealth.HEALTHY)

    @property
    def holds(self) -> tuple[Hold, ...]:
        """Returns the published room that must stay free; none before the state is read."""
        state = self.published.value
        return state.recovery.holds if state else ()

    def publishes_hold_of_move(self, pod_uid: str) -> bool:
        """Tells whether extenders can know of the room that the move of this pod keeps."""
        return any(hold.pod_uid == move_hold_uid(pod_uid) for hold in self.holds)


def move_hold_uid(pod_uid: str) -> str:
    """Returns the `pod_uid` of a move's holds, which tells them from those of a failover."""
    return f"{MOVE_HOLD_PREFIX}{pod_uid}"
