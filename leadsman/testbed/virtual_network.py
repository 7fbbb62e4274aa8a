"""Builds a network on one machine: hosts with their own addresses, and delays and losses that can be changed.

    with VirtualNetwork(["edge-1", "edge-2"]) as net:
        net.set_delay("edge-1", "edge-2", 40, loss_ratio=0.2)
        subprocess.run(net.command("edge-1", ["ping", "-c", "3", net.address("edge-2")]))

Each host is a network namespace; a child process carries the packets between TUN devices, because not every kernel has
`tc netem`. The network is removed, with all that runs in it, when the block ends and when this process dies in it.
"""

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path as FilePath

from leadsman.testbed import forwarder, namespaces
from leadsman.testbed.forwarder import DEVICE, LinkProperties

MAX_HOSTS = 250
_HOST = re.compile(r"[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?")
_STOP_WITHIN_SECONDS = 20.0
_NEEDED_CAPABILITIES = 1 << 12 | 1 << 21
"""CAP_NET_ADMIN, CAP_SYS_ADMIN: capabilities(7)."""


class NetworkFailed(Exception):
    """The network could not be built or its forwarder died; the text says which step was refused."""


def why_unavailable() -> str | None:
    """Says why no VirtualNetwork can be built here, with the line that brings what is missing; None when it can."""
    if shutil.which("ip") is None:
        return "no `ip`: apt-get install iproute2"
    if not os.path.exists(DEVICE):
        return f"no {DEVICE}: modprobe tun"
    if not may_administer():
        return "not root, or without CAP_SYS_ADMIN and CAP_NET_ADMIN: network namespaces need them; run with sudo"
    return None


def may_administer() -> bool:
    """Tells whether this process is root, with the capabilities to build network namespaces."""
    status = dict(line.split(":", 1) for line in FilePath("/proc/self/status").read_text("ascii").splitlines())
    return os.geteuid() == 0 and int(status["CapEff"], 16) & _NEEDED_CAPABILITIES == _NEEDED_CAPABILITIES


class VirtualNetwork:
    """Builds the hosts on entry and removes them on exit.

    paths: (host, host) → round-trip milliseconds to begin with; a pair without has 0.
    seed: of the random numbers that decide which packets are lost.

    Within a host, ICMP datagram sockets are allowed to every group that exists there.
    """

    def __init__(
        self, hosts: Sequence[str], paths: Mapping[tuple[str, str], float] | None = None, seed: int = 0
    ) -> None:
        self._numbers = {_checked(host): number for number, host in enumerate(hosts)}
        if len(self._numbers) != len(hosts) or len(hosts) > MAX_HOSTS:
            raise ValueError(f"{len(hosts)} hosts, {len(self._numbers)} different: want each once, at most {MAX_HOSTS}")
        self._paths, self._seed = dict(paths or {}), seed
        self._process: subprocess.Popen[str] | None = None
        self._prefix = ""

    def __enter__(self) -> "VirtualNetwork":
        # A session of its own: Ctrl-C reaches us alone, and the forwarder takes everything down when we let go of it.
        self._process = subprocess.Popen(
            [sys.executable, "-m", "leadsman.testbed.forwarder"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        self._prefix = namespaces.run_prefix(self._process.pid)
        try:
            self._order({"hosts": list(self._numbers), "seed": self._seed})
            for (one, other), rtt_ms in self._paths.items():
                self.set_delay(one, other, rtt_ms)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Kills what runs in the hosts and removes them. Safe to repeat."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin
        assert process.stdout
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        try:
            process.wait(_STOP_WITHIN_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
        namespaces.remove([name for name in namespaces.existing() if name.startswith(self._prefix)])

    @property
    def hosts(self) -> tuple[str, ...]:
        return tuple(self._numbers)

    def address(self, host: str) -> str:
        """Returns the host's IPv4 address."""
        return forwarder.ipv4(self._numbers[host])

    def address6(self, host: str) -> str:
        return forwarder.ipv6(self._numbers[host])

    def block(self, host: str) -> str:
        """Returns an IPv4 /24 whose addresses are all the host's: for many targets on few hosts."""
        return forwarder.ipv4_block(self._numbers[host])

    def namespace(self, host: str) -> str:
        """Returns the host's name in `ip netns`."""
        return f"{self._prefix}{host}" if host in self._numbers else self._unknown(host)

    def command(self, host: str, argv: Sequence[str]) -> list[str]:
        """Returns the command that runs `argv` on the host."""
        return ["ip", "netns", "exec", self.namespace(host), *argv]

    def set_delay(self, one: str, other: str, rtt_ms: float, loss_ratio: float = 0.0) -> None:
        """Sets delay and loss of round trips between two hosts, from when this returns. Raises ValueError when out of
        bounds, KeyError when there is no such host."""
        path = LinkProperties(rtt_ms, loss_ratio).validated()
        self._order({"one": self._numbers[one], "other": self._numbers[other], "path": path})

    def cut(self, one: str, other: str) -> None:
        """Lets nothing pass between the two until `set_delay`."""
        self.set_delay(one, other, 0.0, loss_ratio=1.0)

    def _unknown(self, host: str) -> str:
        raise KeyError(f"no host {host!r}: want one of {', '.join(self._numbers)}")

    def _order(self, order: dict[str, object]) -> None:
        """Sends an order to the forwarder and waits until it is carried out."""
        if self._process is None:
            raise NetworkFailed("the network is not up: use it in a `with` block")
        assert self._process.stdin
        assert self._process.stdout
        try:
            self._process.stdin.write(json.dumps(order) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise NetworkFailed("the forwarder has died") from error
        answer = self._process.stdout.readline().strip()
        if answer != "ok":
            raise NetworkFailed(answer or why_unavailable() or "the forwarder has died")


def _checked(host: str) -> str:
    if not _HOST.fullmatch(host):
        raise ValueError(f"host {host!r}: want lower-case letters, digits, '-' and '.', at most 63 characters")
    return host


class Uplinks(AbstractContextManager["Uplinks"]):
    """Connects this machine to each host of a VirtualNetwork without delay, for a store and for an operator's curl.

        with VirtualNetwork(["a", "b"]) as net, Uplinks(net) as up:
            up.local_address   this machine's address, as the hosts see it
            up.address("a")    host a's address, as this machine sees it

    One veth pair a host, removed with the host's namespace. Addresses are from 198.18.0.0/15 (RFC 2544, benchmarks).
    NetworkFailed says which step was refused.
    """

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

    def __exit__(self, *_: object) -> None:
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
        """Returns the device's name: at most 15 characters (IFNAMSIZ); a process id has at most 7."""
        return f"up{os.getpid()}n{self._numbers[host]}"


def _ip(arguments: str) -> None:
    done = subprocess.run(["ip", *arguments.split()], capture_output=True, text=True, check=False)
    if done.returncode:
        raise NetworkFailed(f"ip {arguments}: {done.stderr.strip()}")
