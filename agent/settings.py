"""The agent's knobs. Read once from flags and environment in `leadsman`, then passed down."""

from pathlib import Path
from typing import Literal

from msgspec import Struct

from clusterstate.keys import check_node_name
from clusterstate.timing import Timing


class EtcdSettings(Struct, frozen=True):
    """endpoints: URLs, tried in turn. user and password: for etcd's own RBAC, over TLS."""

    endpoints: tuple[str, ...]
    ca_file: Path | None = None
    user: str = ""
    password: str = ""


class Settings(Struct, frozen=True):
    """node, address: under which peers find this node. owner: the pod's UID; two owners never write one node.

    peers_file: a static list instead of the peers that the state names. peers: how many are probed; the cost of
    a node grows with it and with nothing else. window_seconds: how long a probe counts in the statistics.
    """

    node: str
    address: str
    owner: str
    etcd: EtcdSettings
    zone: str = ""
    rack: str = ""
    peers_file: Path | None = None
    max_peers: int = 16
    probe: Literal["auto", "icmp", "tcp"] = "auto"
    probe_interval_seconds: float = 1.0
    window_seconds: float = 30.0
    tcp_port: int = 9102
    timing: Timing = Timing()
    listen: str = "0.0.0.0:9102"
    proc_root: Path = Path("/proc")
    sys_root: Path = Path("/sys")

    def __post_init__(self) -> None:
        check_node_name(self.node)
