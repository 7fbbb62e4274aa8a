"""Where the demo's nodes are: hosts with real delays between them, or loopback addresses where that is not allowed."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import combinations

from msgspec import Struct

from leadsman.testbed import virtual_network
from leadsman.testbed.etcd import free_ports
from leadsman.testbed.uplink import Uplinks
from leadsman.testbed.virtual_network import VirtualNetwork

NODES = {"edge-1": 0.0, "edge-2": 2.0, "edge-3": 9.0, "metro-1": 22.0, "cloud-1": 45.0}
"""Node → round-trip ms from edge-1, all on one line: so far apart are any two."""

AGENT_PORT = 9102


class DemoHost(Struct, frozen=True):
    """address: for peers' probes. metrics: its agent's, from this machine. prefix: what runs a command there."""

    node: str
    address: str
    metrics_address: str
    command_prefix: tuple[str, ...] = ()


class DemoNetwork(Struct, frozen=True):
    """here: addresses of this machine at which every host finds the store. note: what a viewer should know."""

    hosts: tuple[DemoHost, ...]
    local_addresses: tuple[str, ...]
    note: str


@contextmanager
def build_network() -> Iterator[DemoNetwork]:
    """Until the block ends. network.NetworkFailed when a step is refused."""
    missing = virtual_network.why_unavailable()
    if missing:
        yield _on_loopback(missing)
        return
    with ExitStack() as stack:
        delays = {(one, other): abs(NODES[one] - NODES[other]) for one, other in combinations(NODES, 2)}
        net = stack.enter_context(VirtualNetwork(list(NODES), delays))
        uplinks = stack.enter_context(Uplinks(net))
        yield _in_namespaces(net, uplinks)


def _in_namespaces(net: VirtualNetwork, uplinks: Uplinks) -> DemoNetwork:
    hosts = tuple(
        DemoHost(node, net.address(node), f"{uplinks.address(node)}:{AGENT_PORT}", tuple(net.command(node, ())))
        for node in NODES
    )
    note = f"{len(hosts)} network namespaces; a forwarder between TUN devices delays packets by 2 to 45 ms"
    return DemoNetwork(hosts, ("127.0.0.1", uplinks.local_address), note)


def _on_loopback(missing: str) -> DemoNetwork:
    addresses = {node: f"127.0.9.{number}" for number, node in enumerate(NODES, start=1)}
    port = free_ports(1)[0]
    hosts = tuple(DemoHost(node, address, f"{address}:{port}") for node, address in addresses.items())
    return DemoNetwork(hosts, ("127.0.0.1",), f"loopback addresses, so all delays are near 0 ({missing})")
