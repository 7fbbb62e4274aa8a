"""Defines what detection is given and what it says: rules, Leases, signals, verdicts. Times are monotonic seconds."""

from enum import StrEnum

from msgspec import Struct

from leadsman.cluster.model import Location


class Truth(StrEnum):
    """Says whether a signal is true. Unknown is neither of the others, and never counts as true."""

    TRUE = "true"
    FALSE = "false"
    UNKNOWN = "unknown"


class DetectionRules(Struct, frozen=True):
    """The thresholds, which docs/self-healing.md lists for operators.

    call_timeout_seconds: the agents' own, T in 2P + T.
    least_probers: peers that must be assigned to probe a node; in a cluster of three, both others.
    lost_ratio: share of them that must have lost it.
    heard_ratio: share of its other peers that a prober must hear, or its losses are its own fault.
    moving_ratio: share of the other heartbeats that must have moved all that time, or it is etcd that stood still.
    lease_ratio: share of a Lease's duration for which it must not change.
    renewed_ratio: share of the other Leases, without those of nodes lost meanwhile, that must change in that time, or
        the API server stands still.
    partition_seconds: nodes of one rack or zone that fall silent within this time count as one fault.
    assignment_seconds: how long a prober that reports no more still counts as one, which hears all its peers.
    """

    call_timeout_seconds: float = 3.0
    least_probers: int = 3
    lost_ratio: float = 0.75
    heard_ratio: float = 0.5
    moving_ratio: float = 0.5
    lease_ratio: float = 0.3
    renewed_ratio: float = 0.8
    partition_seconds: float = 30.0
    assignment_seconds: float = 300.0


class LeaseView(Struct, frozen=True):
    """A node's Lease in kube-node-lease, as the controller sees it.

    changed_at: when it was last seen to change, or first seen.
    confirmed_at: when the last direct read began that saw this same version; None: there was none.
    is_new: it was first seen then, and may be of any age.
    """

    duration_seconds: float
    changed_at: float
    confirmed_at: float | None = None
    is_new: bool = False


class Signal(Struct, frozen=True):
    """Says what one of the three signals of a node's death shows.

    reason: a sentence.
    evidence: who says what, one text each.
    """

    truth: Truth
    reason: str
    evidence: tuple[str, ...] = ()


class Signals(Struct, frozen=True):
    """The three signals of a node's death.

    peers: those that probe the node have lost it. heartbeat: it stands still in etcd. lease: it is not renewed.
    """

    peers: Signal
    heartbeat: Signal
    lease: Signal

    @property
    def truths(self) -> tuple[Truth, Truth, Truth]:
        return self.peers.truth, self.heartbeat.truth, self.lease.truth


class NodeHealth(StrEnum):
    """The health that a node is judged to have. Only from a dead one may anything be taken away.

    HEALTHY: no signal is true; that may be because nothing is known.
    PARTITION: its peers lost it together with others of its rack or zone: more likely cut off than dead.
    """

    HEALTHY = "healthy"
    SUSPECT = "suspect"
    PARTITION = "partition"
    DEAD = "dead"


class VerdictReason(StrEnum):
    """Why, in CamelCase as conditions and Events have it."""

    REACHABLE = "NodeReachable"
    NO_EVIDENCE = "NoEvidence"
    DEAD = "NodeDead"
    PARTITION = "RackOrZoneSilent"
    DATA_PLANE_DOWN = "LeaseRenewedDataPlaneDown"
    STILL_REPORTS = "PeersLostNodeThatReports"
    CUT_FROM_CONTROL_PLANE = "PeersHearNodeThatReportsNothing"
    AGENT_SILENT = "AgentSilent"
    KUBELET_SILENT = "KubeletSilent"
    INCOMPLETE = "EvidenceIncomplete"


class Timeline(Struct, frozen=True):
    """Holds when each step of a node's failure happened; None: it did not.

    first_lost_at: the first of the probes that its peers lost was sent.
    suspect_at, dead_at: the first verdict of that kind.
    """

    first_lost_at: float | None = None
    suspect_at: float | None = None
    dead_at: float | None = None

    def shifted(self, seconds: float) -> "Timeline":
        """Returns the same moments by a clock that is so far ahead."""
        times = self.first_lost_at, self.suspect_at, self.dead_at
        return Timeline(*(None if at is None else at + seconds for at in times))


class NodeVerdict(Struct, frozen=True):
    """Says what was concluded about one node.

    since: the beginning of this state.
    message: a sentence: who says what.
    location: by the node's labels, else by its agent.
    """

    node: str
    state: NodeHealth
    since: float
    reason: VerdictReason
    message: str
    signals: Signals
    timeline: Timeline
    location: Location = Location()

    @property
    def reports(self) -> bool:
        """Tells whether the node's agent reports now."""
        return self.signals.heartbeat.truth is Truth.FALSE
