"""What the API reads, wired by the process."""

import socket
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct, field

from extender.api.contract.overview import CertificateDays
from extender.decider import DEFAULT_CORE, DecisionCore
from extender.journal import Journal
from extender.metrics import ExtenderMetrics
from extender.plugins.host import PluginState
from extender.probe_on_demand import RequestProbes
from extender.worker_pool import WorkerPool
from leadsman.runtime.mutual_tls import MutualTls
from leadsman.sources.input_sources import InputSources


class ApiSources(Struct, frozen=True):
    """replica: the name of this process among the replicas: in a cluster the pod's, which is its host name.

    policy_path: "": the default policy.
    plugins: what each plugin of the policy does.
    core: what decides a what-if.
    request_probes: None: nobody can be asked to measure.
    tls: of kube-scheduler's listener; None: it is plain HTTP.
    grafana_url: where a pair's past is shown, with {a} and {b} for the nodes' names; "": nowhere.
    wall_clock: Unix seconds.
    """

    inputs: InputSources
    journal: Journal
    metrics: ExtenderMetrics
    workers: WorkerPool
    wall_clock: Callable[[], float]
    replica: str = field(default_factory=socket.gethostname)
    policy_path: str = ""
    plugins: Callable[[], Sequence[PluginState]] = tuple
    core: DecisionCore = DEFAULT_CORE
    request_probes: RequestProbes | None = None
    grafana_url: str = ""
    tls: MutualTls | None = None

    @property
    def problems(self) -> Mapping[str, str]:
        """What of this process's inputs cannot be read as it is now → why."""
        problems = {"policy file": self.inputs.policy.problem.text}
        problems |= {f"delays of {source}": text for source, text in self.inputs.delays.problems.items()}
        problems["certificates"] = self.tls.problem.text if self.tls else ""
        return {name: text for name, text in problems.items() if text}

    @property
    def certificates(self) -> Sequence[CertificateDays]:
        now, expires_at = self.wall_clock(), self.tls.expires_at if self.tls else {}
        return [CertificateDays(name, round((at - now) / 86_400, 2)) for name, at in sorted(expires_at.items())]

    def wall_time(self, moment: float) -> float:
        """Unix seconds of a moment of the inputs' clock."""
        return self.wall_clock() - self.inputs.clock() + moment
