"""Gathers what a decision is made on, at the moment of a request."""

from collections.abc import Callable
from typing import TypeVar

from msgspec import Struct, field

from leadsman.decision.inputs import DecisionInputs, TelemetryInputs, WorkloadIndex
from leadsman.decision.policy import Policy
from leadsman.decision.view import Views
from leadsman.sources.cluster.device_follower import DeviceFollower
from leadsman.sources.cluster.node_followers import NodeFollower
from leadsman.sources.cluster.self_healing_follower import BackupFollower, SelfHealingFollower
from leadsman.sources.delay.delay_sources import DelaySources
from leadsman.sources.policy_file import PolicyFile
from leadsman.sources.source import Source
from leadsman.state.snapshot import Snapshot

T = TypeVar("T")

_ABSENT = DecisionInputs(Snapshot(), Policy(), 0.0)
"""Decisions know this of a source that is not there."""


class InputSources(Struct, frozen=True):
    """Holds every source of DecisionInputs. The first four are required; for the others, None: there is none of that
    kind.

    delays: what counts after the agents' reports, and the estimates.
    clock: monotonic seconds, on the clock of the state's ages.
    backups: for explanations; decisions do not see it.
    """

    state: Source[Snapshot]
    policy: PolicyFile
    delays: DelaySources
    clock: Callable[[], float]
    views: Views = field(default_factory=Views)
    workloads: Source[WorkloadIndex] | None = None
    nodes: NodeFollower | None = None
    telemetry: Source[TelemetryInputs] | None = None
    self_healing: SelfHealingFollower | None = None
    backups: BackupFollower | None = None
    devices: DeviceFollower | None = None

    def current_inputs(self) -> DecisionInputs:
        """Reads the newest value of each source; the nodes' labels are for plugins."""
        policy = self.policy.current
        return DecisionInputs(
            self.state.current,
            policy,
            self.clock(),
            self.views,
            _current(self.workloads, _ABSENT.workloads),
            tuple(view for source in self.delays.sources if (view := source.current) is not None),
            self.delays.estimator.current,
            node_roles=_ABSENT.node_roles if self.nodes is None else self.nodes.roles,
            telemetry=_current(self.telemetry, _ABSENT.telemetry),
            self_healing=_current(self.self_healing, _ABSENT.self_healing),
            last_round_trips=(self.self_healing or _ABSENT).last_round_trips,
            node_labels=self.nodes.labels if self.nodes and policy.plugins.are_used else None,
            devices=_current(self.devices, _ABSENT.devices),
        )


def _current(source: Source[T] | None, absent: T) -> T:
    return absent if source is None else source.current
