"""The agent's settings, read once from flags and environment and passed down, and the static list of peers. Pure."""

from bisect import bisect
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from agent.peering.peer_refresh import PROBE_BUDGET
from agent.pods.monitor import PodSettings
from agent.rtt.peer import Peer, ProbeSettings
from leadsman.state.etcd_http import EtcdAccess
from leadsman.state.keys import check_node_name, ring_position
from leadsman.state.report_timing import ReportTiming

# Reads a static list of peers, which replaces the ring in etcd.
#
# At most k of them are probed: those that follow this node on a ring of name hashes, so that with the same list
# everywhere every node probes k and is probed by about k.


class InvalidPeerList(ValueError):
    """The static list cannot be used. The text names the line and what is wrong."""


def parse_peers(text: str) -> list[Peer]:
    """The peers in a text of `name address [zone [rack]]` a line, where # begins a comment. InvalidPeerList."""
    lines = ((number, line.partition("#")[0].split()) for number, line in enumerate(text.splitlines(), start=1))
    peers = [_parsed(number, fields) for number, fields in lines if fields]
    names = [peer.name for peer in peers]
    if twice := {name for name in names if names.count(name) > 1}:
        raise InvalidPeerList(f"listed more than once: {', '.join(sorted(twice))}")
    return peers


def select_peers(own_name: str, candidates: Iterable[Peer], k: int) -> dict[str, Peer]:
    """name → the k peers that follow `own_name` on the ring; all of them when there are no more than k."""
    ring = sorted((peer for peer in candidates if peer.name != own_name), key=lambda peer: ring_position(peer.name))
    start = bisect([ring_position(peer.name) for peer in ring], ring_position(own_name))
    return {peer.name: peer for peer in (ring[start:] + ring[:start])[:k]}


def _parsed(number: int, fields: list[str]) -> Peer:
    if not 2 <= len(fields) <= 4:
        raise InvalidPeerList(f"line {number}: {len(fields)} fields; must be: name address [zone [rack]]")
    try:
        return Peer(check_node_name(fields[0]), *fields[1:])
    except ValueError as error:
        raise InvalidPeerList(f"line {number}: {error}") from error


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
