"""Runs as `python -m leadsman.testbed.forwarder`: builds the namespaces, carries their packets, and takes them down
when its input ends.

A process of its own, for precise timing and because it outlives a crash of the one that started it.

    stdin   {"hosts": [...], "seed": 1}               stdout   ok, or the reason why not
            {"one": 0, "other": 1, "path": [40, 0.2]}          ok           … until end of file
"""

import contextlib
import ctypes
import fcntl
import heapq
import json
import os
import select
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from ipaddress import ip_address, ip_network
from pathlib import Path as FilePath
from random import Random
from typing import NamedTuple

from leadsman.testbed import namespaces

# A TUN device: what the kernel sends into it is read as IP packets, what is written comes out as received.

DEVICE = "/dev/net/tun"

# linux/if_tun.h
_TUNSETIFF = 0x400454CA
_IFF_TUN = 0x0001
_IFF_NO_PI = 0x1000


def open_tun(name: str) -> int:
    """Opens a new TUN device in the caller's network namespace, non-blocking. It is removed when closed."""
    descriptor = os.open(DEVICE, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        fcntl.ioctl(descriptor, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _IFF_TUN | _IFF_NO_PI))
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


# Decides where a packet goes, when, and whether it is lost. Pure: time and randomness are arguments.

_IPV4_HEADER = 20
_IPV6_HEADER = 40


class LinkProperties(NamedTuple):
    """Sets delay and loss between two hosts.

    rtt_ms: half of it is added each way.
    loss_ratio: share of round trips that are lost, 0..1.
    """

    rtt_ms: float = 0.0
    loss_ratio: float = 0.0

    @property
    def one_way_seconds(self) -> float:
        return self.rtt_ms / 2e3

    @property
    def drop_ratio(self) -> float:
        """Returns the share to drop in each direction, so that a round trip survives with 1 - loss_ratio."""
        return float(1 - (1 - self.loss_ratio) ** 0.5)

    def validated(self) -> "LinkProperties":
        """Returns the link itself. Raises ValueError when a value is out of its range."""
        if not 0 <= self.rtt_ms < float("inf"):
            raise ValueError(f"rtt_ms {self.rtt_ms}: want a finite number of milliseconds, 0 or more")
        if not 0 <= self.loss_ratio <= 1:
            raise ValueError(f"loss_ratio {self.loss_ratio}: want 0 to 1")
        return self


class Departure(NamedTuple):
    """A packet that leaves to a host at a given time."""

    due: float
    serial: int
    host: int
    packet: bytes


def destination(packet: bytes) -> bytes | None:
    """Returns the destination address, 4 or 16 bytes; None when that is no IP packet."""
    version = packet[0] >> 4 if packet else 0
    if version == 4 and len(packet) >= _IPV4_HEADER:
        return packet[16:20]
    return packet[24:40] if version == 6 and len(packet) >= _IPV6_HEADER else None


class Links:
    """Holds the packets under way between numbered hosts.

    addresses: packed IPv4 or IPv6 address, or the first three bytes of an IPv4 /24 → host.
    """

    def __init__(self, addresses: dict[bytes, int], rng: Random) -> None:
        self._addresses, self._rng = addresses, rng
        self._paths: dict[tuple[int, int], LinkProperties] = {}
        self._waiting: list[Departure] = []
        self._serial = 0

    def set_path(self, one: int, other: int, path: LinkProperties) -> None:
        """Sets delay and loss in both directions, for packets that enter from now on."""
        self._paths[one, other] = self._paths[other, one] = path

    def enter(self, host: int, packet: bytes, now: float) -> None:
        """Takes a packet that `host` sent. One to an unknown address is lost, as in a network without such a host."""
        to = self._owner(destination(packet))
        if to is None:
            return
        path = self._paths.get((host, to), LinkProperties())
        if not (path.loss_ratio and self._rng.random() < path.drop_ratio):
            self._serial += 1
            heapq.heappush(self._waiting, Departure(now + path.one_way_seconds, self._serial, to, packet))

    def leave(self, now: float) -> list[Departure]:
        """Returns the packets that are due, in order."""
        departures = []
        while self._waiting and self._waiting[0].due <= now:
            departures.append(heapq.heappop(self._waiting))
        return departures

    def _owner(self, address: bytes | None) -> int | None:
        if address is None:
            return None
        to = self._addresses.get(address)
        return self._addresses.get(address[:3]) if to is None else to

    @property
    def next_due(self) -> float | None:
        return self._waiting[0].due if self._waiting else None


DEVICE_NAME = "eth0"
ANY_GROUP_RANGE = "0 2147483647"

_PING_GROUPS = "net/ipv4/ping_group_range"
_LARGEST_PACKET = 65_535
_SPIN_SECONDS = 0.0002
"""The last stretch before a departure is polled, not slept: a woken process is late by 50 to 100 us."""

_PR_SET_TIMERSLACK = 29  # linux/prctl.h
_STDIN, _STDOUT = 0, 1


def ipv4(host: int) -> str:
    return f"10.213.{(host + 1) >> 8}.{(host + 1) & 255}"


def ipv4_block(host: int) -> str:
    return f"10.214.{host}.0/24"


def ipv6(host: int) -> str:
    return f"fd00:1ead::{host + 1:x}"


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0)
    with contextlib.suppress(PermissionError):  # a packet that leaves late would be a longer delay than was asked for
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    with open(_STDIN, "rb", buffering=0, closefd=False) as unbuffered:
        order = json.loads(unbuffered.readline() or b"null")
    if order:
        with contextlib.suppress(BrokenPipeError):
            _serve(order["hosts"], order["seed"])


def _serve(hosts: Sequence[str], seed: int) -> None:
    names = [namespaces.run_prefix(os.getpid()) + host for host in hosts]
    try:
        namespaces.remove(namespaces.stale())
        namespaces.add(names)
        tuns = [_build(name, host) for host, name in enumerate(names)]
        _say("ok")
        _forward(tuns, Links(_addresses(len(hosts)), Random(seed)))
    except (OSError, subprocess.CalledProcessError) as error:
        _say(str(error))
    finally:
        namespaces.remove(names)


def _build(name: str, host: int) -> int:
    with namespaces.inside(name):
        tun = open_tun(DEVICE_NAME)
        # Before the device is up, so that IPv6 sends nothing of its own.
        _sysctl(f"net/ipv6/conf/{DEVICE_NAME}/addr_gen_mode", "1")
        _allow_icmp_sockets()
        namespaces.configure(_commands(host))
    return tun


def _commands(host: int) -> list[str]:
    commands = ["link set lo up", f"link set {DEVICE_NAME} up", f"addr add {ipv4(host)}/16 dev {DEVICE_NAME}"]
    commands += [f"route add local {ipv4_block(host)} dev lo", f"route add 10.214.0.0/16 dev {DEVICE_NAME}"]
    with_ipv6 = FilePath("/proc/sys/net/ipv6").is_dir()
    return [*commands, f"addr add {ipv6(host)}/64 dev {DEVICE_NAME} nodad"] if with_ipv6 else commands


def _allow_icmp_sockets() -> None:
    """Allows them to every group that exists: a user namespace with one group refuses a range of others."""
    try:
        _sysctl(_PING_GROUPS, ANY_GROUP_RANGE)
    except OSError:
        _sysctl(_PING_GROUPS, f"{os.getegid()} {os.getegid()}")


def _sysctl(key: str, value: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        FilePath("/proc/sys", key).write_text(value, "ascii")


def _addresses(hosts: int) -> dict[bytes, int]:
    single = {ip_address(address(host)).packed: host for host in range(hosts) for address in (ipv4, ipv6)}
    return single | {ip_network(ipv4_block(host)).network_address.packed[:3]: host for host in range(hosts)}


def _forward(tuns: Sequence[int], links: Links) -> None:
    """Carries packets until standard input ends."""
    hosts = {tun: host for host, tun in enumerate(tuns)}
    orders = _Lines(lambda line: _set_path(links, line))
    while True:
        ready, _, _ = select.select([_STDIN, *tuns], [], [], _wait_seconds(links.next_due))
        for descriptor in ready:
            if descriptor != _STDIN:
                _take(descriptor, hosts[descriptor], links)
            elif not orders.read():
                return
        _deliver(tuns, links)


def _wait_seconds(due: float | None) -> float | None:
    return None if due is None else max(0.0, due - time.monotonic() - _SPIN_SECONDS)


def _take(tun: int, host: int, links: Links) -> None:
    """Takes all waiting packets. The clock is read after each, or a packet that came meanwhile would leave early."""
    with contextlib.suppress(BlockingIOError):
        while True:
            packet = os.read(tun, _LARGEST_PACKET)
            links.enter(host, packet, time.monotonic())


def _deliver(tuns: Sequence[int], links: Links) -> None:
    for departure in links.leave(time.monotonic()):
        # EIO: the device is down. EINVAL: the host has no such family. Either way the packet is lost.
        with contextlib.suppress(OSError):
            os.write(tuns[departure.host], departure.packet)


def _set_path(links: Links, line: bytes) -> None:
    order = json.loads(line)
    links.set_path(order["one"], order["other"], LinkProperties(*order["path"]))
    _say("ok")


class _Lines:
    """Reads whole lines from standard input."""

    def __init__(self, handle: Callable[[bytes], None]) -> None:
        self._handle, self._rest = handle, b""

    def read(self) -> bool:
        """Handles the lines that have arrived, and returns False at the end of the input."""
        data = os.read(_STDIN, _LARGEST_PACKET)
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._handle(line)
        return bool(data)


def _say(text: str) -> None:
    os.write(_STDOUT, text.replace("\n", " ").encode() + b"\n")


if __name__ == "__main__":
    main()
