"""Defines what a decision knows besides the pod: one immutable object with everything known at one moment."""

from collections.abc import Callable, Collection, Mapping, Sequence, Set
from math import inf
from types import MappingProxyType
from typing import NamedTuple, Protocol

from msgspec import Struct, field, structs

from leadsman.cluster.devices.demand import DeviceDemand
from leadsman.cluster.devices.node_devices import ClaimRequests, NodeDevices
from leadsman.cluster.model import Overlay
from leadsman.decision.model import PodInfo
from leadsman.decision.policy import Policy
from leadsman.decision.telemetry.taspolicy import PolicyKey, RefusedPolicy, TasPolicy
from leadsman.decision.view import View, Views
from leadsman.state.snapshot import Freshness, Snapshot

# What delays are taken from besides the agents' own reports; implemented in `leadsman.sources.delay`.
#
# Objects of these shapes are immutable views of one moment: a new one when anything changes, so that what was
# computed from the old one can be kept by its identity. Round trips are in ms, finite and at least 0; times are
# monotonic seconds.


class SourceRow(Struct, frozen=True):
    """Says what one source has measured between a reference node and others.

    forward: node → round trip, measured by the reference; backward: by the node. no_reply: nodes that one of the two
    probed without a reply: never a delay, and never estimated. A node without data stands nowhere.
    """

    forward: Mapping[str, float] = MappingProxyType({})
    backward: Mapping[str, float] = MappingProxyType({})
    no_reply: Set[str] = frozenset()


class DelayView(Protocol):
    """Delays that something other than our agents measured: a static matrix or Goldpinger.

    source: the name in explanations. nodes: those that the source knows; while it is fresh, it vouches for them as an
    agent's heartbeat does, so an estimate may count for them. read_at: when it was measured; None: it does
    not age. fresh_until: from then on nothing of it counts; infinite for what does not age.
    """

    @property
    def source(self) -> str: ...
    @property
    def nodes(self) -> Set[str]: ...
    @property
    def read_at(self) -> float | None: ...
    @property
    def fresh_until(self) -> float: ...

    def row(self, reference: str) -> SourceRow:
        """Returns what was measured at a reference; SourceRow() for one that the source does not know."""
        ...


class EstimatedRow(Struct, frozen=True):
    """Estimates from a reference to `nodes`, each once, in columns of equal length. A node without an estimate is left
    out.

    low_ms..high_ms hold the truth in 9 of 10 pairs. source: "group", "coordinates", "remembered" for a pair that was
    measured before, or "measured" for one that was when the estimates were made. expected_ms: by what other nodes
    report of both ends; what only one of the two reports counts as no less. lowest_ms: below it that is not believed at
    all. Of both 0: nothing can be told; infinite: nothing that only one reports is believed, and then the estimate may
    be NaN. Empty: all are 0.
    """

    nodes: Sequence[str] = ()
    rtt_ms: Sequence[float] = ()
    low_ms: Sequence[float] = ()
    high_ms: Sequence[float] = ()
    source: Sequence[str] = ()
    expected_ms: Sequence[float] = ()
    lowest_ms: Sequence[float] = ()


class EstimateView(Protocol):
    """Estimates of round trips, fitted in the background. made_at: when what they were fitted to was read."""

    @property
    def made_at(self) -> float: ...

    def row(self, reference: str) -> EstimatedRow:
        """Returns the reference's estimates; EstimatedRow() when nothing is known. Asked once for each new object, and
        kept."""
        ...


class LastRoundTrips(Struct, frozen=True):
    """Round trips of a dead or suspect node, as they were measured before it fell silent.

    measured_at: when. rtt_ms: other node → round trip.
    """

    measured_at: float
    rtt_ms: Mapping[str, float]


# What decisions know of devices besides the agents' reports.


class Reservation(Struct, frozen=True):
    """Holds devices for a pod from the answer to kube-scheduler until the pod is seen bound, whichever node it goes to.

    nodes: those that were kept for it; None: any.
    """

    uid: str
    demand: DeviceDemand
    nodes: frozenset[str] | None = None

    def may_be_on(self, node: str) -> bool:
        return self.nodes is None or node in self.nodes


class AskedDevices(Struct, frozen=True, omit_defaults=True):
    """Says what pods ask of devices that DRA drivers publish. Replaced, never altered.

    claims: namespace/name → what a ResourceClaim asks that was given nothing yet. templates: of ResourceClaimTemplates.
    extended: extended resource → the selection of a DeviceClass that it stands for.
    problems: selection → why its devices are not counted.
    """

    claims: Mapping[str, ClaimRequests] = {}
    templates: Mapping[str, ClaimRequests] = {}
    extended: Mapping[str, str] = {}
    problems: Mapping[str, str] = {}


class DeviceInputs(Struct, frozen=True):
    """The cluster's devices, and what is reserved of them.

    followed: whether devices are followed at all; if not, nothing is decided on them.
    nodes: node → its devices; replaced, never altered. A node that is absent has none.
    reservations: for other pods, made before this one was asked about, by any replica.
    reservations_problem: why they are not known; "" when they are.
    asked: by claims.
    """

    followed: bool = False
    nodes: Mapping[str, NodeDevices] = MappingProxyType({})
    reservations: tuple[Reservation, ...] = ()
    reservations_problem: str = ""
    asked: AskedDevices = AskedDevices()


# What decisions know of self-healing: the view of its published state. Times are monotonic seconds, as `now` is.

CRITICAL_PRIORITY = 2_000_000_000
"""A pod of this priority or a higher one is critical to the cluster (system-cluster-critical): nothing is withheld from
it."""


class RoomHold(Struct, frozen=True):
    """Keeps room on a node for the pods of one owner until a given time.

    owner_uid: their controller.
    only: those pods may go nowhere else either, because one of them is being moved here.
    """

    owner_uid: str
    until: float
    only: bool = False


class SelfHealing(Struct, frozen=True):
    """Says what the controller last published, and the placeholders; a new object when anything changes.

    refused: node → why pods with delay bounds are kept off it: the dead and the suspect ones.
    holds: node → its holds, those that have ended too.
    backup_owners: node → UIDs of the controllers whose pods have their backup there.
    placeholders: UIDs of the pods that only hold room.
    read_at: when the API server last confirmed the state; None: it is not followed, or was never read.
    """

    refused: Mapping[str, str] = MappingProxyType({})
    holds: Mapping[str, tuple[RoomHold, ...]] = MappingProxyType({})
    backup_owners: Mapping[str, frozenset[str]] = MappingProxyType({})
    placeholders: frozenset[str] = frozenset()
    read_at: float | None = None

    def held_until(self, node: str, now: float) -> Mapping[str, float]:
        """Maps each owner to when its last hold on the node ends, without those that have ended."""
        active = [hold for hold in self.holds.get(node, ()) if hold.until > now]
        return {hold.owner_uid: hold.until for hold in sorted(active, key=lambda hold: hold.until)}

    def only_nodes(self, owner_uid: str, now: float) -> frozenset[str]:
        """Returns the only nodes that this owner's pods may go to, as they are being moved there; empty: anywhere."""
        return frozenset(
            node
            for node, holds in self.holds.items()
            if any(hold.only and hold.owner_uid == owner_uid and hold.until > now for hold in holds)
        )


def never_withheld(pod: PodInfo) -> bool:
    """Tells whether the pod may use held room, because the cluster or its node does not work without it."""
    return pod.priority >= CRITICAL_PRIORITY or pod.workload.startswith("daemonset/")


# The telemetry inputs of a decision: the policies, and tables of metrics.

DEFAULT_MAX_AGE_SECONDS = 15.0
"""No decision uses a value that was last read longer ago; agents' reports have the same limit."""


class TasPolicies(Struct, frozen=True):
    """Holds all telemetry policies, in use or refused.

    used: the last valid version of each.
    refused: those whose newest version is invalid.
    loaded: they were listed; until then an empty `used` does not mean that there is none.
    """

    used: Mapping[PolicyKey, TasPolicy] = MappingProxyType({})
    refused: Mapping[PolicyKey, RefusedPolicy] = MappingProxyType({})
    loaded: bool = False

    @property
    def metrics(self) -> frozenset[str]:
        """Returns the metrics that the policies in use name."""
        return frozenset(metric for policy in self.used.values() for metric in policy.metrics)


class Readings(Struct, frozen=True, eq=False):
    """The values of one metric; a node without a value is absent.

    values: node → nanos (see `leadsman.kube.quantity`).
    read_at: node → monotonic seconds; None: all are fresh.
    oldest_read_at: the least of read_at.
    """

    values: Mapping[str, int] = MappingProxyType({})
    read_at: Mapping[str, float] | None = None
    oldest_read_at: float = float("inf")


class PolledMetrics(Struct, frozen=True):
    """Holds metrics that a source was polled for.

    columns: metric → its values as last read, however old.
    max_age_seconds: how long a value counts, unless the policy says otherwise.
    """

    columns: Mapping[str, Readings] = MappingProxyType({})
    max_age_seconds: float = DEFAULT_MAX_AGE_SECONDS


class SnapshotMetrics(Struct, frozen=True):
    """Stands for the agents' hardware metrics, which are in the snapshot."""


class TelemetryInputs(Struct, frozen=True):
    """Holds telemetry policies, and the tables of metrics that they may use.

    tables: in order of precedence; for each metric the first table that has a current value of it counts.
    """

    policies: TasPolicies = TasPolicies()
    tables: tuple[PolledMetrics | SnapshotMetrics, ...] = ()


# The index of workloads: on which nodes the pods of each workload run, for delay bounds that name a workload.
#
# A workload is what a pod belongs to at the top: Pod → ReplicaSet → Deployment, or StatefulSet, DaemonSet, Job, any
# other controller's kind, or the pod itself when it has none. Kinds are in lower case: `deployment/web`, `pod/alone`.


LOST = "lost"
"""The node of a pod that is supposed to fall with its own and has no backup. No node has this name, so no delay to it
is known: a bound to all replicas is not kept then, and one to the nearest looks at the others."""


class PlacedPod(NamedTuple):
    """A pod that has a node and has not finished."""

    pod: str
    node: str


PlacedPods = tuple[PlacedPod, ...]

_NO_KINDS: Mapping[str, PlacedPods] = MappingProxyType({})


class WorkloadIndex(Struct, frozen=True):
    """Holds all workloads at one moment; a new object when anything changes. The default is not loaded.

    by_name: (namespace, name) → kind → placed pods, () for a workload of which no pod has a node.
    read_at: monotonic seconds when the API server last confirmed the index; None: not loaded.
    """

    by_name: Mapping[tuple[str, str], Mapping[str, PlacedPods]] = MappingProxyType({})
    read_at: float | None = None

    @property
    def loaded(self) -> bool:
        """Tells whether the workloads were ever listed."""
        return self.read_at is not None

    def age_seconds(self, now: float) -> float | None:
        """Returns how long ago the API server last confirmed the index; None: not loaded."""
        return None if self.read_at is None else now - self.read_at

    def find(self, namespace: str, name: str) -> Mapping[str, PlacedPods]:
        """Maps kind → placed pods of the workloads called `web`, or `deployment/web` for one kind; {}: none."""
        kind, slash, bare = name.rpartition("/")
        kinds = self.by_name.get((namespace, bare), _NO_KINDS)
        return kinds if not slash else {kind: kinds[kind]} if kind in kinds else _NO_KINDS


class DecisionInputs(Struct, frozen=True):
    """Everything that a plugin may look at besides the pod.

    now: monotonic seconds, of the clock that the snapshot's ages use.
    views: those of earlier inputs; pass the same one each time.
    workloads: where the pods of each workload run.
    delay_views: RTTs measured by others than our agents; of several the first that knows a pair counts.
    estimates: RTTs of pairs without a measurement; None: there are none.
    telemetry: policies and the metrics that they name.
    node_roles: each node of the cluster → its label kubernetes.io/role, or ""; replaced, never altered. Empty: nodes
        are not followed, or not listed yet.
    checkpoint: called between the steps of long work; raises when nobody waits for the result any more.
    self_healing: dead nodes, held room, placeholders.
    last_round_trips: dead or suspect node → its last delays; replaced, never altered.
    node_labels: node → its labels, for plugins; replaced, never altered. None: they are not followed, as the policy
        names no plugin, or not listed yet.
    devices: of nodes, and what is reserved of them.
    """

    snapshot: Snapshot
    policy: Policy
    now: float
    views: Views = field(default_factory=Views)
    workloads: WorkloadIndex = WorkloadIndex()
    delay_views: tuple[DelayView, ...] = ()
    estimates: EstimateView | None = None
    telemetry: TelemetryInputs = TelemetryInputs()
    node_roles: Mapping[str, str] = {}
    checkpoint: Callable[[], None] = lambda: None
    self_healing: SelfHealing = SelfHealing()
    last_round_trips: Mapping[str, LastRoundTrips] = MappingProxyType({})
    node_labels: Mapping[str, Mapping[str, str]] | None = None
    devices: DeviceInputs = DeviceInputs()

    def view(self, names: Collection[str] = ()) -> View:
        """Returns the view of the snapshot that decisions read. names: of nodes that its index must have."""
        sources = (self.policy, self.estimates, self.last_round_trips, *self.delay_views)
        found = self.views.find(self.snapshot, self.now, sources, names)
        if found is not None:
            return found
        known = [names, self.last_round_trips, *(view.nodes for view in self.delay_views)]
        known += [last.rtt_ms for last in self.last_round_trips.values()]
        until = min((each.fresh_until for each in self.delay_views if each.fresh_until > self.now), default=inf)
        return self.views.begin(self.snapshot, self.now, sources, known, until)

    def with_devices_of(self, changed: Mapping[str, NodeDevices]) -> "DecisionInputs":
        """Returns the inputs with other devices of these nodes."""
        nodes = self.devices.nodes
        base = nodes if isinstance(nodes, Overlay) else Overlay(nodes)
        return structs.replace(self, devices=structs.replace(self.devices, nodes=base.replaced(changed)))

    def freshness_of(self, node: str) -> Freshness:
        """Returns how fresh a node's state is; a node that the state does not know is silent."""
        state = self.snapshot.nodes.get(node)
        return Freshness.SILENT if state is None else state.freshness(self.now)
