"""The network of the demo's nodes: hosts with real delays between them, or loopback addresses where that is refused."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import combinations
from pathlib import Path

from msgspec import Struct

from leadsman.testbed import user_namespace, virtual_network
from leadsman.testbed.etcd import Etcd, free_ports
from leadsman.testbed.virtual_network import Uplinks, VirtualNetwork

NODES = {"edge-1": 0.0, "edge-2": 2.0, "edge-3": 9.0, "metro-1": 22.0, "cloud-1": 45.0}
"""Node → round-trip ms from edge-1. The nodes are on one line, so these are also the distances between any two."""

AGENT_PORT = 9102


class DemoHost(Struct, frozen=True):
    """One node of the demo.

    address: where peers probe it.
    metrics_address: HOST:PORT of its agent's pages, from this machine.
    command_prefix: what runs a command on the host.
    """

    node: str
    address: str
    metrics_address: str
    command_prefix: tuple[str, ...] = ()


class DemoNetwork(Struct, frozen=True):
    """The hosts, and how they reach this machine.

    local_addresses: addresses of this machine at which every host finds the store.
    note: what a viewer should know.
    """

    hosts: tuple[DemoHost, ...]
    local_addresses: tuple[str, ...]
    note: str


def why_only_loopback(demo_arguments: Sequence[str]) -> str | None:
    """Why delays cannot be real here; None when they can.

    For a plain user who may make a user namespace, the demo starts again in one, and this does not return.
    """
    missing = virtual_network.why_unavailable()
    if missing is None or virtual_network.may_administer():
        return missing
    refused = user_namespace.why_unavailable()
    if refused is None:
        user_namespace.restart_inside([sys.executable, "-m", "leadsman.cli.main", "demo", *demo_arguments])
    return f"{missing}; as this user: {refused}"


@contextmanager
def build_network(missing: str | None) -> Iterator[DemoNetwork]:
    """Until the block ends. missing: why delays cannot be real. NetworkFailed when a step is refused."""
    if missing:
        yield _on_loopback(missing)
        return
    with ExitStack() as stack:
        delays = {(one, other): abs(NODES[one] - NODES[other]) for one, other in combinations(NODES, 2)}
        net = stack.enter_context(VirtualNetwork(list(NODES), delays))
        uplinks = stack.enter_context(Uplinks(net))
        yield _in_namespaces(net, uplinks)


def reachable_etcd(folder: Path, addresses: Sequence[str]) -> Etcd:
    """An etcd, not started, at which the hosts find it: these addresses of this machine."""
    etcd = Etcd(folder)
    etcd.flags = (f"--listen-client-urls={','.join(f'http://{address}:{etcd.port}' for address in addresses)}",)
    return etcd


def _in_namespaces(net: VirtualNetwork, uplinks: Uplinks) -> DemoNetwork:
    hosts = tuple(
        DemoHost(node, net.address(node), f"{uplinks.address(node)}:{AGENT_PORT}", tuple(net.command(node, ())))
        for node in NODES
    )
    within = " in a user namespace" if user_namespace.is_inside() else ""
    note = f"{len(hosts)} network namespaces{within}; a forwarder between TUN devices delays packets by 2 to 45 ms"
    return DemoNetwork(hosts, ("127.0.0.1", uplinks.local_address), note)


def _on_loopback(missing: str) -> DemoNetwork:
    addresses = {node: f"127.0.9.{number}" for number, node in enumerate(NODES, start=1)}
    port = free_ports(1)[0]
    hosts = tuple(DemoHost(node, address, f"{address}:{port}") for node, address in addresses.items())
    return DemoNetwork(hosts, ("127.0.0.1",), f"loopback addresses, so all delays are near 0 ({missing})")
