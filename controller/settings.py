"""Holds the controller's settings, read once from flags and environment and passed down."""

from enum import StrEnum
from pathlib import Path

from msgspec import Struct

from leadsman.planning.backups.backup_plan import BackupSettings
from leadsman.planning.failover.node_verdict import DetectionRules
from leadsman.planning.labels.label_plan import LabelLimits
from leadsman.planning.moves.plan_run import MovePlanLimits
from leadsman.planning.rebalance_plan import RebalanceSettings
from leadsman.planning.recovery_plan import FAILOVER_OFF, RecoveryBudget
from leadsman.planning.replacement_plan import ReplacementSettings
from leadsman.sources.delay.delay_sources import DelaySettings
from leadsman.sources.telemetry.telemetry_sources import TelemetrySettings
from leadsman.state.etcd_http import EtcdAccess

DEFAULT_PATCHES_PER_SECOND = 200.0


class DeviceHealthMode(StrEnum):
    """Says whether devices are judged (not off), and what follows is only logged and shown (dry-run) or done (act)."""

    OFF = "off"
    DRY_RUN = "dry-run"
    ACT = "act"


class PlaceholderSettings(Struct, frozen=True):
    """Placeholders run this image, which must end on SIGTERM and do nothing, and this scheduler places them."""

    image: str = "registry.k8s.io/pause:3.10"
    scheduler: str = "default-scheduler"


class SelfHealingSettings(Struct, frozen=True):
    """Holds what an operator chooses of self-healing.

    enabled: whether bounded pods have backups, and bounded pods are kept off dead and suspect nodes.
    budget: how much is done about dead nodes; FAILOVER_OFF: nothing.
    replacement: when pods are moved to other nodes while all nodes live; None: never.
    move_plans: whether plans that are handed over are carried out, which needs `replacement`; None: they are not.
    rebalance: when pods are moved to nodes that serve them better, which needs `move_plans`; None: never.
    """

    enabled: bool = False
    backups: BackupSettings = BackupSettings()
    placeholders: PlaceholderSettings = PlaceholderSettings()
    budget: RecoveryBudget = FAILOVER_OFF
    replacement: ReplacementSettings | None = None
    move_plans: MovePlanLimits | None = None
    rebalance: RebalanceSettings | None = None


class ControllerSettings(Struct, frozen=True):
    """Holds what a controller is started with.

    telemetry: the API server, and where metrics come from.
    identity: of this process, in the Lease and in Events.
    policy, delays: the extender's, so that the requeue plan filters as it does.
    limits: of label changes.
    lease: its namespace, which is Leadsman's own, and its name.
    patches_per_second: most patches of nodes a second.
    listen: host and port of metrics, health and plan.
    dry_run: show the plan and write nothing, not even the Lease.
    placement_events: write an Event on each pod with a delay bound that was placed, with its node's delay.
    node_health: by which rules nodes are judged; None: they are not. Verdicts are conditions, Events and metrics.
    devices: whether pods that an extender refused for a link or a part of a card are tried again when there is room.
    device_health: whether devices are judged, and marked; needs Prometheus among the telemetry sources.
    self_healing: backups, and what is done about dead nodes; needs node_health.
    """

    etcd: EtcdAccess
    telemetry: TelemetrySettings
    identity: str
    policy: Path | None = None
    delays: DelaySettings = DelaySettings()
    limits: LabelLimits = LabelLimits()
    lease: tuple[str, str] = ("leadsman", "leadsman-controller")
    patches_per_second: float = DEFAULT_PATCHES_PER_SECOND
    listen: tuple[str, int] = ("0.0.0.0", 9003)
    dry_run: bool = False
    placement_events: bool = False
    node_health: DetectionRules | None = None
    self_healing: SelfHealingSettings = SelfHealingSettings()
    devices: bool = False
    device_health: DeviceHealthMode = DeviceHealthMode.OFF
