"""The controller's settings, read once from flags and environment and passed down."""

from pathlib import Path

from msgspec import Struct

from controller.device_health import DeviceHealthMode
from controller.node_health import NodeHealthSettings
from controller.self_healing import SelfHealingSettings
from leadsman.kube.leader_election import ElectionTiming
from leadsman.planning.labels.model import LabelLimits
from leadsman.sources.delay.delay_sources import DelaySettings
from leadsman.sources.telemetry.telemetry_sources import TelemetrySettings
from leadsman.state.etcd_http import EtcdAccess

DEFAULT_PATCHES_PER_SECOND = 200.0


class ControllerSettings(Struct, frozen=True):
    """What a controller is started with.

    telemetry: the API server, and where metrics come from.
    identity: of this process, in the Lease and in Events.
    policy, delays: the extender's, so that the requeue plan filters as it does.
    limits: of label changes.
    lease: namespace and name.
    patches_per_second: most patches of nodes a second.
    listen: host and port of metrics, health and plan.
    dry_run: show the plan and write nothing, not even the Lease.
    placement_events: write an Event on each pod with a delay bound that was placed, with its node's delay.
    node_health: whether nodes are judged.
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
    timing: ElectionTiming = ElectionTiming()
    patches_per_second: float = DEFAULT_PATCHES_PER_SECOND
    listen: tuple[str, int] = ("0.0.0.0", 9003)
    dry_run: bool = False
    placement_events: bool = False
    node_health: NodeHealthSettings = NodeHealthSettings()
    self_healing: SelfHealingSettings = SelfHealingSettings()
    devices: bool = False
    device_health: DeviceHealthMode = DeviceHealthMode.OFF
