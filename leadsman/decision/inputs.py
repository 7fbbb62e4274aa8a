"""The inputs of a decision besides the pod: one immutable object with everything known at one moment."""

from collections.abc import Callable, Mapping

from msgspec import Struct, field

from leadsman.decision.cache import DecisionCache
from leadsman.decision.delay.views import NO_LAST_ROUND_TRIPS, DelayView, EstimateView, LastRoundTrips
from leadsman.decision.devices.model import DeviceInputs
from leadsman.decision.healing.model import SelfHealing
from leadsman.decision.policy import Policy
from leadsman.decision.telemetry.model import TelemetryInputs
from leadsman.decision.workloads import WorkloadIndex
from leadsman.state.snapshot import Snapshot


def _go_on() -> None:
    """Work that nobody ends."""


class NodeLabels(Struct, frozen=True):
    """The labels of nodes, for plugins. Replaced, never altered.

    by_node: node → its labels.
    """

    by_node: Mapping[str, Mapping[str, str]]


class DecisionInputs(Struct, frozen=True):
    """Everything that a plugin may look at besides the pod.

    now: monotonic seconds, of the clock that the snapshot's ages use.
    cache: of what was computed from earlier inputs; pass the same one each time.
    workloads: where the pods of each workload run.
    delay_views: RTTs measured by others than our agents; of several the first that knows a pair counts.
    estimates: RTTs of pairs without a measurement; None: there are none.
    telemetry: policies and the metrics that they name.
    node_roles: node → its label kubernetes.io/role; replaced, never altered.
    checkpoint: called between the steps of long work; raises when nobody waits for the result any more.
    self_healing: dead nodes, held room, placeholders.
    last_round_trips: dead or suspect node → its last delays; replaced, never altered.
    node_labels: None: they are not followed, as the policy names no plugin, or not listed yet.
    devices: of nodes, and what is reserved of them.
    """

    snapshot: Snapshot
    policy: Policy
    now: float
    cache: DecisionCache = field(default_factory=DecisionCache)
    workloads: WorkloadIndex = WorkloadIndex()
    delay_views: tuple[DelayView, ...] = ()
    estimates: EstimateView | None = None
    telemetry: TelemetryInputs = TelemetryInputs()
    node_roles: Mapping[str, str] = {}
    checkpoint: Callable[[], None] = _go_on
    self_healing: SelfHealing = SelfHealing()
    last_round_trips: Mapping[str, LastRoundTrips] = NO_LAST_ROUND_TRIPS
    node_labels: NodeLabels | None = None
    devices: DeviceInputs = DeviceInputs()
