"""The telemetry inputs of a decision: the policies, and tables of metrics."""

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct

from leadsman.decision.telemetry.taspolicy import PolicyKey, PolicyProblem, TasPolicy

DEFAULT_MAX_AGE_SECONDS = 15.0
"""As for the agents' reports: no decision uses a value that was last read longer ago."""


class RefusedPolicy(Struct, frozen=True):
    """A policy whose newest version cannot be used. generation: of that version."""

    problem: PolicyProblem
    generation: int = 0


class TasPolicies(Struct, frozen=True):
    """All telemetry policies.

    used: the last valid version of each.
    refused: those whose newest version is invalid.
    loaded: they were listed; until then an empty `used` does not mean that there is none.
    """

    used: Mapping[PolicyKey, TasPolicy] = MappingProxyType({})
    refused: Mapping[PolicyKey, RefusedPolicy] = MappingProxyType({})
    loaded: bool = False

    @property
    def metrics(self) -> frozenset[str]:
        """The metrics that the policies in use name."""
        return frozenset(metric for policy in self.used.values() for metric in policy.metrics)


class Readings(Struct, frozen=True, eq=False):
    """The values of one metric; a node without a value is absent.

    values: node → nanos (see `quantity`).
    read_at: node → monotonic seconds; None: all are fresh.
    oldest_read_at: the least of read_at.
    """

    values: Mapping[str, int] = MappingProxyType({})
    read_at: Mapping[str, float] | None = None
    oldest_read_at: float = float("inf")


class PolledMetrics(Struct, frozen=True):
    """Metrics that a source was polled for.

    columns: metric → its values as last read, however old.
    max_age_seconds: how long a value counts, unless the policy says otherwise.
    """

    columns: Mapping[str, Readings] = MappingProxyType({})
    max_age_seconds: float = DEFAULT_MAX_AGE_SECONDS


class SnapshotMetrics(Struct, frozen=True):
    """The agents' hardware metrics, which are in the snapshot."""


class TelemetryInputs(Struct, frozen=True):
    """Policies and metrics.

    tables: in order of precedence; for each metric the first table that has a current value of it counts.
    """

    policies: TasPolicies = TasPolicies()
    tables: tuple[PolledMetrics | SnapshotMetrics, ...] = ()
