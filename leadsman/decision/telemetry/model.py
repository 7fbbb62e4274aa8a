"""What is known of telemetry at one moment: the policies, and tables of metrics."""

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct

from leadsman.decision.telemetry.taspolicy import PolicyKey, PolicyProblem, TasPolicy

DEFAULT_MAX_AGE_SECONDS = 15.0
"""As the agents' reports: no decision uses a value last read longer ago."""


class RefusedPolicy(Struct, frozen=True):
    """A policy whose newest version cannot be used. generation: of that version."""

    problem: PolicyProblem
    generation: int = 0


class TasPolicies(Struct, frozen=True):
    """used: the last good version of each. refused: those whose newest version is another one.

    loaded: they were listed; until then, none in `used` does not mean that there is none.
    """

    used: Mapping[PolicyKey, TasPolicy] = MappingProxyType({})
    refused: Mapping[PolicyKey, RefusedPolicy] = MappingProxyType({})
    loaded: bool = False

    @property
    def metrics(self) -> frozenset[str]:
        return frozenset(metric for policy in self.used.values() for metric in policy.metrics)


class Readings(Struct, frozen=True, eq=False):
    """One metric. values: node → nanos (see `quantity`). read_at: node → monotonic seconds, None: they are all fresh.

    A node without a value stands in neither. oldest: the least of read_at.
    """

    values: Mapping[str, int] = MappingProxyType({})
    read_at: Mapping[str, float] | None = None
    oldest_read_at: float = float("inf")


class PolledMetrics(Struct, frozen=True):
    """metric → its values as last read, however old."""

    columns: Mapping[str, Readings] = MappingProxyType({})
    max_age_seconds: float = DEFAULT_MAX_AGE_SECONDS


class SnapshotMetrics(Struct, frozen=True):
    """The agents' hardware metrics, which stand in the snapshot."""


class TelemetryInputs(Struct, frozen=True):
    """tables: in their order of precedence. Of a metric the first table counts that has any current value of it."""

    policies: TasPolicies = TasPolicies()
    tables: tuple[PolledMetrics | SnapshotMetrics, ...] = ()
