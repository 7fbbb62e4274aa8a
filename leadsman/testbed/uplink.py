"""Connects this machine to each host of a VirtualNetwork without delay, for a store and for an operator's curl.

    with VirtualNetwork(["a", "b"]) as net, Uplinks(net) as up:
        up.local_address   this machine's address, as the hosts see it
        up.address("a")    host a's address, as this machine sees it

One veth pair a host, removed with the host's namespace. Addresses are from 198.18.0.0/15 (RFC 2544, benchmarks).
"""

import os
import subprocess
from contextlib import AbstractContextManager
from types import TracebackType

from leadsman.testbed.virtual_network import NetworkFailed, VirtualNetwork


class Uplinks(AbstractContextManager["Uplinks"]):
    """The connections, made on entry and removed on exit. NetworkFailed says which step was refused."""

    def __init__(self, network: VirtualNetwork) -> None:
        self._network = network
        self._numbers = {host: number for number, host in enumerate(network.hosts, start=2)}
        self._subnet = f"198.18.{os.getpid() % 255}"
        self.local_address = f"{self._subnet}.1"

    def address(self, host: str) -> str:
        return f"{self._subnet}.{self._numbers[host]}"

    def __enter__(self) -> "Uplinks":
        for host in self._network.hosts:
            self._connect(host)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for host in self._network.hosts:
            subprocess.run(["ip", "link", "delete", self._device(host)], capture_output=True, check=False)

    def _connect(self, host: str) -> None:
        device, namespace = self._device(host), self._network.namespace(host)
        _ip(f"link add {device} type veth peer name uplink netns {namespace}")
        _ip(f"address add {self.local_address} peer {self.address(host)} dev {device}")
        _ip(f"link set {device} up")
        _ip(f"-n {namespace} address add {self.address(host)} peer {self.local_address} dev uplink")
        _ip(f"-n {namespace} link set uplink up")

    def _device(self, host: str) -> str:
        """The device's name: at most 15 characters (IFNAMSIZ); a process id has at most 7."""
        return f"up{os.getpid()}n{self._numbers[host]}"


def _ip(arguments: str) -> None:
    done = subprocess.run(["ip", *arguments.split()], capture_output=True, text=True, check=False)
    if done.returncode:
        raise NetworkFailed(f"ip {arguments}: {done.stderr.strip()}")
