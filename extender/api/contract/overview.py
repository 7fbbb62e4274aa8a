"""The overview and the health checks."""

from collections.abc import Sequence

from msgspec import Struct

from extender.api.contract.common import Problem, ReasonCount
from extender.api.contract.decisions import SilentReplica


class NodeCounts(Struct, frozen=True):
    """Nodes by what their data are worth. unknown: without a heartbeat."""

    fresh: int
    provisional: int
    stale: int
    unknown: int


class PairCounts(Struct, frozen=True):
    """Pairs of nodes. lost: probed, and every probe of the window was lost. estimated: neither, with an estimate."""

    measured: int
    estimated: int
    lost: int


class WorstChange(Struct, frozen=True):
    """The node whose distance to all others changed most within an hour."""

    node: str
    change_ms: float
    since: str
    text: str


class DecisionRates(Struct, frozen=True):
    """Of the last minute, the sum of all replicas that answer; null: none was made.

    refused: nodes refused, by the decisions that the journals keep. refused_by_reason: for the most frequent reasons.
    neutral: decisions that let every node pass alike, since each replica's start.
    replicas: how many these are of. partial: the replicas that are missing.
    """

    per_minute: float
    p50_ms: float | None
    p99_ms: float | None
    refused: int
    refused_by_reason: Sequence[ReasonCount]
    neutral: int
    replicas: int
    partial: Sequence[SilentReplica]


class LatencyBucket(Struct, frozen=True):
    """up_to_seconds: upper end; null: infinite. decisions: within the window, up to this end."""

    up_to_seconds: float | None
    decisions: float


class BoundedPod(Struct, frozen=True):
    """A pod with delay bounds, as one replica decided on it last.

    pod: as namespace/name.
    waiting_seconds: since no node passed, attempt by attempt; null: a node passed the last.
    tried_seconds_ago: the last attempt.
    """

    uid: str
    pod: str
    waiting_seconds: float | None
    tried_seconds_ago: float


class ReplicaRates(Struct, frozen=True):
    """What one replica decided, from which /overview makes the sum of all.

    newest_decision: its id; "": none is kept.
    window_seconds: what `buckets` are of; 0: nothing was counted yet.
    refused_by_reason: nodes refused, for each reason. neutral: as of DecisionRates.
    bounded_pods: those that kube-scheduler may try again.
    """

    newest_decision: str
    window_seconds: float
    buckets: Sequence[LatencyBucket]
    refused_by_reason: Sequence[ReasonCount]
    neutral: int
    bounded_pods: Sequence[BoundedPod]


class WaitingPods(Struct, frozen=True):
    """Pods with delay bounds that no node passed at the last attempt, whichever replica was asked.

    pod: the one that waits longest. partial: replicas whose attempts are missing.
    """

    bounded_pods: int
    longest_seconds: float | None
    pod: str | None
    partial: Sequence[SilentReplica]


class CertificateDays(Struct, frozen=True):
    """days_left: until it expires; null: it cannot be read."""

    name: str
    days_left: float | None


class ReplicaStatus(Struct, frozen=True):
    """An extender. error: why it did not answer; "" when it did."""

    name: str
    reachable: bool
    error: str


class Features(Struct, frozen=True):
    """Which parts of the API have something to show here. sign_out: the request showed the cookie of the form."""

    rewards: bool
    plan: bool
    measure: bool
    what_if: bool
    sign_out: bool


class Overview(Struct, frozen=True):
    """The strip above everything.

    revision: of the state in etcd.
    history_since: where the delay history begins; it is lost at each start.
    """

    at: str
    replica: str
    version: str
    revision: int
    history_since: str
    nodes: NodeCounts
    pairs: PairCounts
    worst_change: WorstChange | None
    decisions: DecisionRates
    waiting: WaitingPods
    certificates: Sequence[CertificateDays]
    replicas: Sequence[ReplicaStatus]
    problems: Sequence[Problem]
    features: Features


class HealthCheckResult(Struct, frozen=True):
    """One check. what_to_do: "" when it is good."""

    name: str
    ok: bool
    text: str
    what_to_do: str


class HealthChecks(Struct, frozen=True):
    """All checks, the failing ones first."""

    checks: Sequence[HealthCheckResult]


class ChangeEvent(Struct, frozen=True):
    """A server-sent event: which parts changed. sections: "nodes", "delays", "decisions"."""

    sections: Sequence[str]
    revision: int
