"""Runs `leadsman demo`: starts everything, waits for measurements, asks as kube-scheduler does, shows the answer."""

import asyncio
import shlex
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from leadsman.cli.demo import demo_network, scheduler_request
from leadsman.cli.demo.child_processes import ChildProcesses, DemoFailed, say
from leadsman.cli.demo.demo_network import AGENT_PORT, NODES, DemoNetwork, reachable_etcd
from leadsman.runtime.text_table import align_columns
from leadsman.state import keys, metric_names
from leadsman.state.etcd_http import EtcdAccess
from leadsman.state.etcd_store import EtcdStore
from leadsman.state.snapshot import NodeState, Snapshot
from leadsman.state.snapshot_updates import snapshot_from_listing
from leadsman.testbed import etcd as testbed_etcd
from leadsman.testbed import user_namespace
from leadsman.testbed.etcd import Etcd

REFERENCE_NODE = next(iter(NODES))
HEADER = ["NODE", "RTT p50", "p95", "LOSS", "CPU busy", "MEM free", "VERDICT", "SCORE", "REASON"]
MEASURED_WITHIN_SECONDS = 60.0
WINDOW_SECONDS = 6.0
AGENT_INTERVALS_SECONDS = {"push-interval": 1, "call-timeout": 1, "probe-interval": 0.2, "window": WINDOW_SECONDS}


def bound_label(within_ms: str) -> dict[str, str]:
    """The pod's label."""
    return {f"delay_{REFERENCE_NODE}": within_ms}


def run(within_ms: str, keep: bool) -> None:
    """DemoFailed, or what testbed raises when this machine cannot do it."""
    missing = demo_network.why_only_loopback(["--within-ms", within_ms, *(["--keep"] if keep else [])])
    with ExitStack() as stack:
        surroundings = stack.enter_context(demo_network.build_network(missing))
        say(f"network    {surroundings.note}")
        processes = stack.enter_context(ChildProcesses())
        etcd = stack.enter_context(reachable_etcd(processes.folder / "etcd", surroundings.local_addresses))
        say(f"etcd       {etcd.client_url}")
        extender, api = _start(processes, surroundings, etcd)
        _wait(processes, api)
        _show(extender, api, etcd.client_url, within_ms)
        if keep:
            _keep_running(surroundings, etcd, api, processes)


def _start(processes: ChildProcesses, surroundings: DemoNetwork, etcd: Etcd) -> tuple[str, str]:
    """Starts everything. URLs of the extender, for kube-scheduler and of its API."""
    for host in surroundings.hosts:
        flags = {
            "address": host.address,
            "listen": f"0.0.0.0:{AGENT_PORT}" if host.command_prefix else host.metrics_address,
            "etcd": f"http://{surroundings.local_addresses[-1]}:{etcd.port}",
        }
        processes.start_agent(host.node, flags, AGENT_INTERVALS_SECONDS, host.command_prefix)
    say(f"agents     {', '.join(host.node for host in surroundings.hosts)}")
    extender, ops, api = processes.start_extender(etcd.client_url)
    say(f"extender   {extender}  (metrics {ops}/metrics)")
    say(f"page       {api}/")
    return extender, api


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


def _wait(processes: ChildProcesses, api: str) -> None:
    """Until the extender has fresh records of every node, each with a full window of every other node."""
    window = FullWindow()

    def full() -> bool:
        measured = sum(
            node["status"] == "fresh" and _has_all_peers(node["peers_p50_ms"])
            for node in scheduler_request.reporting_nodes(api)
        )
        say(f"measuring  {measured} of {len(NODES)} nodes measured all their peers", for_now=True)
        return window.observe(measured, time.monotonic())

    processes.wait_until(full, "every node measured all its peers", MEASURED_WITHIN_SECONDS, pause=0.2)
    say(f"measuring  {len(NODES)} of {len(NODES)} nodes measured all their peers for {WINDOW_SECONDS:g} s")


def _has_all_peers(p50_ms: dict[str, float | None]) -> bool:
    return len(p50_ms) == len(NODES) - 1 and None not in p50_ms.values()


def _show(extender: str, api: str, etcd: str, within_ms: str) -> None:
    body = scheduler_request.captured_args(list(NODES), bound_label(within_ms))
    scheduler_request.filter_and_prioritize(extender, body)
    pod = scheduler_request.pod_name(body)
    explanation = scheduler_request.explanation(api, pod)
    print(
        f'\nPod {pod} carries the label delay_{REFERENCE_NODE}: "{within_ms}": '
        f"at most {within_ms} ms from {REFERENCE_NODE}."
    )
    print("kube-scheduler asks with a request captured from a real one.\n")
    print(_table(asyncio.run(_snapshot(etcd)), explanation))
    print(f"\nRTT: as {REFERENCE_NODE} measured it. All nodes share this machine, so their hardware is the same.")
    print(f"Answer: {explanation['headline']}")


def _table(snapshot: Snapshot, explanation: Mapping[str, Any]) -> str:
    """What was measured, what was decided, and why. explanation: as the API has it."""
    states, here = snapshot.nodes, snapshot.nodes[REFERENCE_NODE]
    rows = [_row(node, states[node["node"]], _rtt(here, node["node"])) for node in explanation["nodes"]]
    return "\n".join(align_columns([HEADER, *rows]))


def _row(node: Mapping[str, Any], state: NodeState, rtt: list[str]) -> list[str]:
    values = state.hardware.values if state.hardware else {}
    return [
        node["node"],
        *rtt,
        _shown(values.get(metric_names.CPU_BUSY), "{:.0%}"),
        _shown(values.get(metric_names.MEMORY_AVAILABLE), "{:.0%}"),
        node["verdict"],
        _shown(node["score"], "{}"),
        node["reason"].partition(": ")[0],  # Its delay stands in a column of its own.
    ]


def _rtt(reference: NodeState, node: str) -> list[str]:
    window = reference.latency.peers.get(node) if reference.latency else None
    if window is None:
        return ["-", "-", "-"]
    return [_shown(window.p50_ms, "{:.2f} ms"), _shown(window.p95_ms, "{:.2f} ms"), _shown(window.loss_ratio, "{:.0%}")]


def _shown(value: float | None, form: str) -> str:
    return "-" if value is None else form.format(value)


async def _snapshot(etcd: str) -> Snapshot:
    store = EtcdStore(EtcdAccess((etcd,)))
    try:
        return snapshot_from_listing(Snapshot(), await store.read_prefix(keys.NODES_PREFIX))
    finally:
        await store.close()


def _keep_running(surroundings: DemoNetwork, etcd: Etcd, api: str, processes: ChildProcesses) -> None:
    """Until Ctrl-C, which is how a kept demo ends and so no failure."""
    pages = [f"http://{host.metrics_address}/metrics" for host in surroundings.hosts]
    print("\nThe cluster keeps running; Ctrl-C stops it and leaves nothing behind. Try:\n")
    for command in _commands_to_try(api, pages, etcd.client_url):
        print(f"  {command}")
    print("\nRunning.", flush=True)
    with suppress(KeyboardInterrupt):
        while not (exited := processes.first_exit()):
            time.sleep(0.5)
        raise DemoFailed(exited)
    say("\nstopped; nothing is left running")


def _commands_to_try(api: str, pages: Sequence[str], etcd_url: str) -> Iterator[str]:
    """What a kept demo offers: each works when it is pasted into a shell of the user who started the demo.

    api: URL of the extender's. pages: URLs of the agents' metrics. etcdctl and a fetcher only where there is one.
    """
    fetch = _fetch_command()
    yield _command(*_leadsman_command(), "explain", "cap-00000", "--extender", api)
    if fetch:
        yield from (_command(*fetch, page) for page in (f"{api}/api/v1/overview", *pages))
    if etcdctl := _etcdctl():
        yield _command(etcdctl, "--endpoints", etcd_url, "get", "--prefix", keys.NODES_PREFIX)


def _leadsman_command() -> list[str]:
    """`leadsman` where PATH leads to this installation; else its full path."""
    own = Path(sys.executable).with_name("leadsman")
    if not own.exists():
        return [sys.executable, "-m", "leadsman.cli.main"]
    found = shutil.which("leadsman")
    return ["leadsman"] if found and Path(found).samefile(own) else [str(own)]


def _fetch_command() -> list[str]:
    known = {"curl": ["curl", "-s"], "wget": ["wget", "-qO-"]}
    return next((command for name, command in known.items() if shutil.which(name)), [])


def _etcdctl() -> str | None:
    """On PATH, or beside the etcd that runs."""
    beside = testbed_etcd.find_binary().with_name("etcdctl")
    return "etcdctl" if shutil.which("etcdctl") else str(beside) if beside.exists() else None


def _command(*words: str) -> str:
    return shlex.join([*user_namespace.command_prefix(), *words])
