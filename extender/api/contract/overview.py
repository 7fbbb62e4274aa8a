"""The overview and the health checks."""

from collections.abc import Sequence

from msgspec import Struct

from extender.api.contract.common import Problem, ReasonCount


class NodeCounts(Struct, frozen=True):
    """Nodes by what their data are worth. unknown: without a heartbeat."""

    fresh: int
    provisional: int
    stale: int
    unknown: int


class PairCounts(Struct, frozen=True):
    """Pairs of nodes, and links that are lost: directions of which every probe got no reply. estimated: not measured,
    with an estimate."""

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
    """What this replica decided in the last minute; null: nothing.

    refused: nodes refused, by the decisions that the journal keeps. refused_by_reason: for the most frequent reasons.
    decided: decisions since the start. neutral: those among them that let every node pass alike.
    """

    per_minute: float
    p50_ms: float | None
    p99_ms: float | None
    refused: int
    refused_by_reason: Sequence[ReasonCount]
    decided: int
    neutral: int


class WaitingPods(Struct, frozen=True):
    """Pods with delay bounds that no node passed when this replica was asked last. pod: the one that waits longest."""

    bounded_pods: int
    longest_seconds: float | None
    pod: str | None


class CertificateDays(Struct, frozen=True):
    """days_left: until it expires; null: it cannot be read."""

    name: str
    days_left: float | None


class Features(Struct, frozen=True):
    """Which parts of the API have something to show here."""

    rewards: bool
    measure: bool
    what_if: bool


class Overview(Struct, frozen=True):
    """The strip above everything.

    cluster, revision: of the state in etcd; "": none was read. newest_report_seconds: since any node's last report.
    history_since: where the delay history begins; it is lost at each start.
    """

    at: str
    replica: str
    version: str
    cluster: str
    revision: int
    newest_report_seconds: float | None
    history_since: str
    nodes: NodeCounts
    pairs: PairCounts
    worst_change: WorstChange | None
    decisions: DecisionRates
    waiting: WaitingPods
    certificates: Sequence[CertificateDays]
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
