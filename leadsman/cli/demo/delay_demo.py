"""The demo's run: start everything, wait for measurements, ask as the scheduler asks, show the answer."""

import asyncio
import json
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from urllib.error import URLError

from leadsman.cli.demo import delay_table, scheduler_request
from leadsman.cli.demo.child_processes import ChildProcesses
from leadsman.cli.demo.demo_network import AGENT_PORT, NODES, DemoHost, DemoNetwork, build_network
from leadsman.state import keys
from leadsman.state.etcd_http import EtcdAccess
from leadsman.state.etcd_store import EtcdStore
from leadsman.state.snapshot import Snapshot, snapshot_from_listing
from leadsman.testbed.etcd import Etcd, free_ports

REFERENCE_NODE = next(iter(NODES))
FRESH_WITHIN_SECONDS = 60.0
AGENT_INTERVALS_SECONDS = {"push-interval": 1, "call-timeout": 1, "probe-interval": 0.2, "window": 10}
"""Seconds; faster than in a cluster, so that a viewer need not wait."""


class DemoFailed(Exception):
    """Something did not start. The text says what, with the end of its log."""


def run(within_ms: str, keep: bool) -> None:
    """DemoFailed, or what testbed raises when this machine cannot do it."""
    with ExitStack() as stack:
        surroundings = stack.enter_context(build_network())
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
    port, ops = free_ports(2)
    extender = f"http://127.0.0.1:{port}"
    listen = ["--listen", f"127.0.0.1:{port}", "--ops-listen", f"127.0.0.1:{ops}"]
    processes.start("extender", ["extender", "--plain-http", *listen, "--etcd", etcd.client_url])
    _say(f"extender   {extender}  (metrics http://127.0.0.1:{ops}/metrics)")
    return extender


def _agent(host: DemoHost, etcd: str) -> list[str]:
    listen = f"0.0.0.0:{AGENT_PORT}" if host.command_prefix else host.metrics_address
    rhythm = [word for name, seconds in AGENT_INTERVALS_SECONDS.items() for word in (f"--{name}-seconds", str(seconds))]
    return ["agent", "--node-name", host.node, "--address", host.address, "--etcd", etcd, "--listen", listen, *rhythm]


def _wait(processes: ChildProcesses, extender: str) -> None:
    """Until every node is fresh and knows every other."""
    deadline = time.monotonic() + FRESH_WITHIN_SECONDS
    while (known := _measured(extender)) < len(NODES):
        if ended := processes.first_exit():
            raise DemoFailed(ended)
        if time.monotonic() > deadline:
            late = f"{known} of {len(NODES)} nodes know all their peers after {FRESH_WITHIN_SECONDS:g} s"
            raise DemoFailed(f"{late}; the extender says:\n{processes.log_tail('extender')}")
        _say(f"measuring  {known} of {len(NODES)} nodes know all their peers", for_now=True)
        time.sleep(0.2)
    _say(f"measuring  {known} of {len(NODES)} nodes know all their peers")


def _measured(extender: str) -> int:
    try:
        nodes = json.loads(scheduler_request.get_page(f"{extender}/state"))["nodes"].values()
    except URLError:
        return 0
    known = [node for node in nodes if node["freshness"] == "fresh" and _knows_all(node["peers_p50_ms"])]
    return len(known)


def _knows_all(peers: dict[str, float | None]) -> bool:
    return len(peers) == len(NODES) - 1 and None not in peers.values()


def _show(extender: str, etcd: str, within_ms: str) -> None:
    label = {f"delay_{REFERENCE_NODE}": within_ms}
    body = scheduler_request.captured_args(list(NODES), label)
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
    pages = [f"curl http://{host.metrics_address}/metrics   # agent of {host.node}" for host in surroundings.hosts]
    print("\nStill running; Ctrl-C stops it and leaves nothing behind. Try:\n")
    print(f"  leadsman explain cap-00000 --extender {extender}\n  curl {extender}/state")
    pages.append(f"etcdctl --endpoints {etcd.client_url} get --prefix {keys.NODES_PREFIX}")
    print("\n".join(f"  {page}" for page in pages), flush=True)
    while not (ended := processes.first_exit()):
        time.sleep(0.5)
    raise DemoFailed(ended)


def _say(text: str, for_now: bool = False) -> None:
    """Progress goes to stderr, so that stdout is the result alone. for_now: a terminal shows the next over it."""
    if not for_now or sys.stderr.isatty():
        print(text, end="\r" if for_now else "\n", file=sys.stderr, flush=True)
