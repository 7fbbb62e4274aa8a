"""The agent's settings, read once from flags and environment and passed down."""

from pathlib import Path

from msgspec import Struct

from agent.peering.probe_rate import PROBE_BUDGET
from agent.pods.monitor import PodSettings
from agent.rtt.peer import Peer
from agent.rtt.settings import ProbeSettings
from leadsman.state.etcd_http import EtcdAccess
from leadsman.state.keys import check_node_name
from leadsman.state.report_timing import ReportTiming


class AgentSettings(Struct, frozen=True):
    """What one agent is told at its start.

    node, address: the node's name and the address that its peers probe.
    owner: the pod's UID. Two owners never write one node's records.
    peers: a static list; None finds peers on the ring in etcd.
    max_peers: how many are probed. An agent's cost grows with it, not with the cluster.
    probe_budget: probes a second that all agents together may send. Each computes its share from the number of nodes,
        so all must have the same budget.
    own_network: as in HostRoots.
    pods: None when the node's pods are not followed.
    hardware_metrics: whether /metrics shows the hardware too. It is measured and reported either way.
    metric_plugins: names of other packages' metrics.
    """

    node: str
    address: str
    owner: str
    etcd: EtcdAccess
    zone: str = ""
    rack: str = ""
    peers: tuple[Peer, ...] | None = None
    max_peers: int = 16
    probe_budget: float = PROBE_BUDGET
    probing: ProbeSettings = ProbeSettings()
    timing: ReportTiming = ReportTiming()
    listen: str = "0.0.0.0:9102"
    proc_root: Path = Path("/proc")
    sys_root: Path = Path("/sys")
    rootfs: Path = Path("/")
    own_network: bool = False
    pods: PodSettings | None = None
    hardware_metrics: bool = True
    metric_plugins: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_node_name(self.node)
