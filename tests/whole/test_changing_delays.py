"""Real agents in five network namespaces, with delays between them that change while they run: placements follow.

The stated time: a median has moved when half a window's probes are new, the next report is at most 1.1 P away, and the
extender hears of it within a call. So half a window + 1.1 P + T; 23.5 s as installed, 4.1 s here.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from leadsman.testbed import virtual_network
from leadsman.testbed.etcd import Etcd
from leadsman.testbed.virtual_network import Uplinks, VirtualNetwork
from tests.leadsman_process import LeadsmanProcess
from tests.waiting import blocked_until as until
from tests.whole.conftest import Start

NO_NAMESPACES = virtual_network.why_unavailable()

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(NO_NAMESPACES is not None, reason=f"no network namespaces here: {NO_NAMESPACES}"),
]

HERE = "edge-0"
OTHERS = [f"edge-{number}" for number in range(1, 5)]
BOUND_MS = 25
BOUND = {f"delay_{HERE}": str(BOUND_MS)}
NEAR_MS, FAR_MS = 10.0, 60.0
WINDOW_SECONDS, PUSH_SECONDS, CALL_SECONDS = 4.0, 1.0, 1.0
FOLLOWS_WITHIN_SECONDS = WINDOW_SECONDS / 2 + 1.1 * PUSH_SECONDS + CALL_SECONDS
SLOW_MACHINE_SECONDS = 2.0
RHYTHM = {"push-interval": PUSH_SECONDS, "call-timeout": CALL_SECONDS, "probe-interval": 0.2, "window": WINDOW_SECONDS}
PORT = 9102


@pytest.fixture
def net() -> Iterator[VirtualNetwork]:
    """Half of the others are near to begin with."""
    delays = {(HERE, name): NEAR_MS if name in OTHERS[:2] else FAR_MS for name in OTHERS}
    with VirtualNetwork([HERE, *OTHERS], delays) as found:
        yield found


@pytest.fixture
def uplinks(net: VirtualNetwork) -> Iterator[Uplinks]:
    with Uplinks(net) as up:
        yield up


@pytest.fixture
def etcd(uplinks: Uplinks, tmp_path: Path) -> Iterator[Etcd]:
    """The one of conftest, reachable from every namespace."""
    found = Etcd(tmp_path / "etcd")
    found.flags = (f"--listen-client-urls={found.client_url},http://{uplinks.local_address}:{found.port}",)
    with found:
        yield found


@pytest.fixture
def cluster(
    net: VirtualNetwork, uplinks: Uplinks, etcd: Etcd, start: Start, tmp_path: Path
) -> Iterator[LeadsmanProcess]:
    """An extender that knows five nodes, each measured by every other."""
    agents = []
    etcd_url = f"http://{uplinks.local_address}:{etcd.port}"
    rhythm = [word for name, seconds in RHYTHM.items() for word in (f"--{name}-seconds", str(seconds))]
    for node in net.hosts:
        where = ["--address", net.address(node), "--listen", f"0.0.0.0:{PORT}", "--etcd", etcd_url]
        command, log = ["agent", "--node-name", node, *where, *rhythm], tmp_path / f"{node}.log"
        agents.append(LeadsmanProcess(command, "", "", log, net.command(node, ())))
    extender = start("extender")
    until(lambda: measured(extender) == len(net.hosts), "five nodes that know all others", 60)
    yield extender
    for one in agents:
        one.kill()


def measured(extender: LeadsmanProcess) -> int:
    nodes = extender.nodes().values()
    return sum(n["status"] == "fresh" and len(n["peers_p50_ms"]) == len(OTHERS) for n in nodes)


def kept(extender: LeadsmanProcess) -> set[str]:
    return set(extender.ask("filter", [HERE, *OTHERS], BOUND)["NodeNames"])


def best(extender: LeadsmanProcess) -> str:
    scores = extender.ask("prioritize", sorted(kept(extender) - {HERE}), BOUND)
    return max(scores, key=lambda row: row["Score"])["Host"]


def test_placements_follow_delays_that_change_and_change_back(net: VirtualNetwork, cluster: LeadsmanProcess) -> None:
    assert kept(cluster) == {HERE, *OTHERS[:2]}
    for near in (OTHERS[1:3], OTHERS[:2], OTHERS[2:]):
        change(net, near)
        patience = FOLLOWS_WITHIN_SECONDS + SLOW_MACHINE_SECONDS
        until(lambda near=near: kept(cluster) == {HERE, *near}, f"only {near} within {BOUND_MS} ms", patience)
        until(lambda near=near: best(cluster) == near[0], f"{near[0]} preferred", patience)


def change(net: VirtualNetwork, near: list[str]) -> None:
    """The first of them the nearest."""
    for name in OTHERS:
        net.set_delay(HERE, name, 2.0 if name == near[0] else NEAR_MS if name in near else FAR_MS)
