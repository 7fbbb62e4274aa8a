"""The faults that must make no node dead: how each is made, how long it is held, and how it is undone."""

import signal
import time
from collections.abc import Callable
from typing import NamedTuple

from tests.failover.agent_cluster import NODES, ZONES, AgentCluster
from tests.failover.api_server_cluster import ApiServerCluster

Do = Callable[[AgentCluster], None]


class Fault(NamedTuple):
    """seconds: how long it is held in the table, and in the quick run; 0: not in the quick run.

    repeat: called once a second while it is held.
    """

    name: str
    seconds: float
    quick_seconds: float
    make: Do
    undo: Do
    repeat: Do = lambda _: None


def _nothing(_: AgentCluster) -> None:
    pass


def _start_etcd(cluster: AgentCluster) -> None:
    cluster.etcd.start()


def _kill_api(cluster: AgentCluster) -> None:
    assert isinstance(cluster, ApiServerCluster)
    cluster.kubernetes.kill()


def _start_api(cluster: AgentCluster) -> None:
    assert isinstance(cluster, ApiServerCluster)
    cluster.kubernetes.start()


def _slow(cluster: AgentCluster) -> None:
    """a-0: half a second to everybody, its agent runs a third of the time, its kubelet renews late."""
    for other in NODES[1:]:
        cluster.net.set_delay("a-0", other, 500.0, loss_ratio=0.05)
    cluster.start_kubelet("a-0", late_seconds=cluster.rhythm.lease / 8)


def _stutter(cluster: AgentCluster) -> None:
    cluster.signal_agent("a-0", signal.SIGSTOP)
    time.sleep(0.6)
    cluster.signal_agent("a-0", signal.SIGCONT)


def _fast(cluster: AgentCluster) -> None:
    cluster.heal()
    cluster.start_kubelet("a-0")


def _cut_zone(cluster: AgentCluster) -> None:
    """From everything; within the zone all answer each other."""
    cluster.cut(ZONES["c"], [*ZONES["a"], *ZONES["b"]])
    for node in ZONES["c"]:
        cluster.unplug(node)


def _join_zone(cluster: AgentCluster) -> None:
    cluster.heal()
    for node in ZONES["c"]:
        cluster.plug_in(node)


FAULTS = (
    Fault("30 % loss everywhere", 600, 8, lambda c: c.lose(0.3), AgentCluster.heal),
    Fault(
        "agent stopped",
        60,
        8,
        lambda c: c.signal_agent("b-1", signal.SIGSTOP),
        lambda c: c.signal_agent("b-1", signal.SIGCONT),
    ),
    Fault("ICMP dropped on one node", 60, 0, lambda c: c.drop_icmp(["a-1"]), lambda c: c.pass_icmp(["a-1"])),
    Fault("ICMP dropped everywhere", 90, 0, lambda c: c.drop_icmp(NODES), lambda c: c.pass_icmp(NODES)),
    Fault("etcd away", 60, 0, lambda c: c.etcd.kill(), _start_etcd),
    Fault("API server hangs", 60, 6, AgentCluster.silence_api, AgentCluster.heal_api),
    Fault("the probers' own switch cut", 60, 0, lambda c: c.cut(ZONES["a"], NODES), AgentCluster.heal),
    Fault("a zone cut from everything", 60, 10, _cut_zone, _join_zone),
    Fault(
        "clocks jump by an hour each second",
        30,
        0,
        _nothing,
        lambda c: c.set_clocks(0),
        lambda c: c.set_clocks(round(time.monotonic()) % 3 * 3600 - 3600),
    ),
    Fault("a slow node", 60, 0, _slow, _fast, _stutter),
    Fault("kubelet restarted", 40, 0, lambda c: c.stop_kubelet("b-2"), lambda c: c.start_kubelet("b-2")),
)

REAL_API_SERVER_FAULTS = (Fault("API server killed", 60, 0, _kill_api, _start_api),)
"""Those of an ApiServerCluster alone."""
