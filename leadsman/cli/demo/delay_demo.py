"""Runs `leadsman demo`: starts everything, waits for measurements, asks as kube-scheduler does, shows the answer."""

import asyncio
import json
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from urllib.error import URLError

from leadsman.cli.demo import delay_table, demo_network, hints, scheduler_request
from leadsman.cli.demo.child_processes import ChildProcesses
from leadsman.cli.demo.demo_network import AGENT_PORT, NODES, DemoHost, DemoNetwork
from leadsman.state import keys
from leadsman.state.etcd_http import EtcdAccess
from leadsman.state.etcd_store import EtcdStore
from leadsman.state.snapshot import Snapshot
from leadsman.state.snapshot_updates import snapshot_from_listing
from leadsman.testbed.etcd import Etcd, free_ports

REFERENCE_NODE = next(iter(NODES))
MEASURED_WITHIN_SECONDS = 60.0
WINDOW_SECONDS = 6.0
AGENT_INTERVALS_SECONDS = {"push-interval": 1, "call-timeout": 1, "probe-interval": 0.2, "window": WINDOW_SECONDS}
"""Shorter than in a cluster, so that a viewer waits seconds."""


class DemoFailed(Exception):
    """A part of the demo did not work. The text says which, with the end of its log."""


def bound_label(within_ms: str) -> dict[str, str]:
    """The pod's label."""
    return {f"delay_{REFERENCE_NODE}": within_ms}


def run(within_ms: str, keep: bool) -> None:
    """DemoFailed, or what testbed raises when this machine cannot do it."""
    missing = demo_network.why_only_loopback(["--within-ms", within_ms, *(["--keep"] if keep else [])])
    with ExitStack() as stack:
        surroundings = stack.enter_context(demo_network.build_network(missing))
        _say(f"network    {surroundings.note}")
        processes = stack.enter_context(ChildProcesses())
        etcd = stack.enter_context(_etcd(processes.folder / "etcd", surroundings))
        _say(f"etcd       {etcd.client_url}")
        extender = _start(processes, surroundings, etcd)
        _wait(processes, extender)
        _show(extender, etcd.client_url, within_ms)
        if keep:
            _keep_running(surroundings, etcd, extender, processes)


def _etcd(folder: Path, surroundings: DemoNetwork) -> Etcd:
    etcd = Etcd(folder)
    urls = ",".join(f"http://{address}:{etcd.port}" for address in surroundings.local_addresses)
    etcd.flags = (f"--listen-client-urls={urls}",)
    return etcd


def _start(processes: ChildProcesses, surroundings: DemoNetwork, etcd: Etcd) -> str:
    for host in surroundings.hosts:
        processes.start(
            f"agent-{host.node}",
            _agent(host, f"http://{surroundings.local_addresses[-1]}:{etcd.port}"),
            host.command_prefix,
        )
    _say(f"agents     {', '.join(host.node for host in surroundings.hosts)}")
    port, ops, page = free_ports(3)
    extender = f"http://127.0.0.1:{port}"
    listen = [f"--listen=127.0.0.1:{port}", f"--ops-listen=127.0.0.1:{ops}", f"--api-listen=127.0.0.1:{page}"]
    processes.start("extender", ["extender", "--plain-http", "--drain-seconds=0", *listen, "--etcd", etcd.client_url])
    _say(f"extender   {extender}  (metrics http://127.0.0.1:{ops}/metrics)")
    _say(f"page       http://127.0.0.1:{page}/")
    return extender


def _agent(host: DemoHost, etcd: str) -> list[str]:
    listen = f"0.0.0.0:{AGENT_PORT}" if host.command_prefix else host.metrics_address
    intervals = [
        word for name, seconds in AGENT_INTERVALS_SECONDS.items() for word in (f"--{name}-seconds", str(seconds))
    ]
    return [
        "agent",
        "--node-name",
        host.node,
        "--address",
        host.address,
        "--etcd",
        etcd,
        "--listen",
        listen,
        *intervals,
    ]


class FullWindow:
    """Tells when every node has measured all its peers for a whole window of probes.

    A median over less still shows how busy the machine was while everything started.
    """

    def __init__(self) -> None:
        self._complete_since = float("inf")

    def observe(self, measured_nodes: int, now: float) -> bool:
        """Whether the window is full at `now`; it begins again when a node loses sight of a peer."""
        self._complete_since = min(self._complete_since, now) if measured_nodes == len(NODES) else float("inf")
        return now - self._complete_since >= WINDOW_SECONDS


def _wait(processes: ChildProcesses, extender: str) -> None:
    """Until the extender has fresh records of every node, each with a full window of every other node."""
    deadline, window = time.monotonic() + MEASURED_WITHIN_SECONDS, FullWindow()
    while not window.observe(measured := _measured_nodes(extender), time.monotonic()):
        if exited := processes.first_exit():
            raise DemoFailed(exited)
        progress = f"{measured} of {len(NODES)} nodes measured all their peers"
        if time.monotonic() > deadline:
            log = processes.log_tail("extender")
            raise DemoFailed(f"only {progress} within {MEASURED_WITHIN_SECONDS:g} s. Extender log:\n{log}")
        _say(f"measuring  {progress}", for_now=True)
        time.sleep(0.2)
    _say(f"measuring  {measured} of {len(NODES)} nodes measured all their peers for {WINDOW_SECONDS:g} s")


def _measured_nodes(extender: str) -> int:
    try:
        nodes = json.loads(scheduler_request.get_page(f"{extender}/state"))["nodes"].values()
    except URLError:
        return 0
    return sum(node["freshness"] == "fresh" and _has_all_peers(node["peers_p50_ms"]) for node in nodes)


def _has_all_peers(p50_ms: dict[str, float | None]) -> bool:
    return len(p50_ms) == len(NODES) - 1 and None not in p50_ms.values()


def _show(extender: str, etcd: str, within_ms: str) -> None:
    body = scheduler_request.captured_args(list(NODES), bound_label(within_ms))
    scheduler_request.filter_and_prioritize(extender, body)
    pod = scheduler_request.pod_name(body)
    explanation = json.loads(scheduler_request.get_page(f"{extender}/explain?pod={pod}"))["explanation"]
    print(
        f'\nPod {pod} carries the label delay_{REFERENCE_NODE}: "{within_ms}": '
        f"at most {within_ms} ms from {REFERENCE_NODE}."
    )
    print("kube-scheduler asks with a request captured from a real one.\n")
    print(delay_table.render(asyncio.run(_snapshot(etcd)), explanation, REFERENCE_NODE))
    print(f"\nRTT: as {REFERENCE_NODE} measured it. All nodes share this machine, so their hardware is the same.")
    print(f"Answer: {explanation['headline']}")


async def _snapshot(etcd: str) -> Snapshot:
    store = EtcdStore(EtcdAccess((etcd,)))
    try:
        return snapshot_from_listing(Snapshot(), await store.read_prefix(keys.NODES_PREFIX))
    finally:
        await store.close()


def _keep_running(surroundings: DemoNetwork, etcd: Etcd, extender: str, processes: ChildProcesses) -> None:
    """Until Ctrl-C, which is how a kept demo ends and so no failure."""
    pages = [f"http://{host.metrics_address}/metrics" for host in surroundings.hosts]
    print("\nThe cluster keeps running; Ctrl-C stops it and leaves nothing behind. Try:\n")
    for command in hints.commands(extender, pages, etcd.client_url):
        print(f"  {command}")
    print("\nRunning.", flush=True)
    with suppress(KeyboardInterrupt):
        while not (exited := processes.first_exit()):
            time.sleep(0.5)
        raise DemoFailed(exited)
    _say("\nstopped; nothing is left running")


def _say(text: str, for_now: bool = False) -> None:
    """Progress goes to stderr, so that stdout is the result alone. for_now: a terminal shows the next over it."""
    if not for_now or sys.stderr.isatty():
        print(text, end="\r" if for_now else "\n", file=sys.stderr, flush=True)
