"""The agent's knobs. Read once from flags and environment in `leadsman`, then passed down."""

from pathlib import Path

from msgspec import Struct

from agent.peering.probe_rate import PROBE_BUDGET
from agent.pods.settings import PodSettings
from agent.rtt.peer import Peer
from agent.rtt.settings import ProbeSettings
from leadsman.state.etcd_http import EtcdAccess
from leadsman.state.keys import check_node_name
from leadsman.state.report_timing import ReportTiming


class AgentSettings(Struct, frozen=True):
    """node, address: under which peers find this node. owner: the pod's UID; two owners never write one node.

    peers: a static list; None: the agents that the state names. max_peers: how many are probed; the cost of an agent
    grows with it and with nothing else. probe_budget: probes a second that all agents together may send; each
    derives its share from the number of nodes, so all must be told the same. pods: None: the node's pods are not
    followed.
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
    pods: PodSettings | None = None

    def __post_init__(self) -> None:
        check_node_name(self.node)
