"""What the API reads, wired by the process."""

import socket
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct, field

from extender.api.contract.overview import CertificateDays
from extender.decider import DEFAULT_CORE, DecisionCore
from extender.journal import Journal
from extender.metrics import ExtenderMetrics
from extender.peers.client import PeerClient
from extender.probe_on_demand import RequestProbes
from extender.worker_pool import WorkerPool
from leadsman.runtime.mutual_tls import MutualTls
from leadsman.sources.input_sources import InputSources


class ApiSources(Struct, frozen=True):
    """replica: the name of this process among the replicas: in a cluster the pod's, which is its host name.

    policy_path: "": the default policy.
    core: what decides a what-if.
    request_probes: None: nobody can be asked to measure.
    tls: of kube-scheduler's listener; None: it is plain HTTP.
    replicas: the other extenders; None: they are not asked.
    replica_tls: of the listener that the others ask; None: there is none.
    controllers: asked for their plan; None: they are not.
    wall_clock: Unix seconds.
    """

    inputs: InputSources
    journal: Journal
    metrics: ExtenderMetrics
    workers: WorkerPool
    wall_clock: Callable[[], float]
    replica: str = field(default_factory=socket.gethostname)
    policy_path: str = ""
    core: DecisionCore = DEFAULT_CORE
    request_probes: RequestProbes | None = None
    tls: MutualTls | None = None
    replicas: PeerClient | None = None
    replica_tls: MutualTls | None = None
    controllers: PeerClient | None = None

    @property
    def problems(self) -> Mapping[str, str]:
        """What of this process's inputs cannot be read as it is now → why."""
        problems = {"policy file": self.inputs.policy.problem.text}
        problems |= {f"delays of {source}": text for source, text in self.inputs.delay_status.problems.items()}
        problems["certificates"] = self.tls.problem.text if self.tls else ""
        problems["replicas' certificates"] = self.replica_tls.problem.text if self.replica_tls else ""
        return {name: text for name, text in problems.items() if text}

    @property
    def certificates(self) -> Sequence[CertificateDays]:
        """Of both listeners."""
        listeners, now = [each for each in (self.tls, self.replica_tls) if each], self.wall_clock()
        expires_at = {name: at for each in listeners for name, at in each.expires_at.items()}
        return [CertificateDays(name, round((at - now) / 86_400, 2)) for name, at in sorted(expires_at.items())]

    def wall_time(self, moment: float) -> float:
        """Unix seconds of a moment of the inputs' clock."""
        return self.wall_clock() - self.inputs.clock() + moment
