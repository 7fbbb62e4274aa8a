"""Wires self-healing: backups and their placeholders, recovery from dead nodes, re-placement, and re-balancing."""

from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from controller.backup_keeper import BackupKeeper
from controller.healed_cluster import HealedCluster
from controller.keeper import Keeper, Tools
from controller.moves import Rebalancer, Replacement
from controller.node_recovery import NodeRecovery
from controller.settings import SelfHealingSettings
from leadsman.planning.failover.node_verdict import NodeVerdict


class SelfHealing:
    """The keepers of self-healing. One that the settings leave out is None; a dry run plans backups and moves only.

    verdicts: on every node, by name.
    """

    def __init__(
        self, tools: Tools, settings: SelfHealingSettings, verdicts: Callable[[], Mapping[str, NodeVerdict]]
    ) -> None:
        self.healed = healed = HealedCluster(tools, settings, verdicts)
        self.cluster = healed.follower
        self.backups = BackupKeeper(tools, healed)
        self.recovery: NodeRecovery | None = None
        self.replacement: Replacement | None = None
        self.rebalancer: Rebalancer | None = None
        if settings.replacement:
            self.replacement = Replacement(tools, healed, settings.replacement)
        if not tools.is_dry_run:
            self.recovery = NodeRecovery(tools, healed, self.backups, self.replacement)
            if settings.rebalance and self.replacement:
                self.rebalancer = Rebalancer(tools, healed, self.replacement, settings.rebalance)
        keepers: list[Keeper | None] = [self.backups, self.recovery, self.replacement, self.rebalancer]
        self.keepers = [keeper for keeper in keepers if keeper is not None]

    def loops(self) -> Mapping[str, Coroutine[Any, Any, None]]:
        """What runs beside the keepers."""
        return {"follow the cluster": self.cluster.run()}

    def page(self) -> Mapping[str, Any]:
        """What is planned and done, as JSON values."""
        if self.cluster.current is None:
            return {"none": f"the cluster is not listed yet: {self.cluster.problem or 'no answer yet'}"}
        sections = {"recovery": self.recovery, "replacement": self.replacement, "rebalancing": self.rebalancer}
        return {
            **self.backups.page(),
            **{name: keeper.page() for name, keeper in sections.items() if keeper is not None},
        }
