"""Measures what one agent costs: RSS, CPU and threads after five minutes with 16 peers, etcd and a scrape every 15 s.

    python -m benchmarks.agent [--seconds 300] [--peers 16] [--pods 110] [--nodes 1000]

The other nodes stand on the ring in etcd with addresses of 16 hosts, network namespaces that answer ICMP after 1 to
40 ms: on loopback all replies would be there as soon as the probes are sent. The agent is the real process, with the
environment of its image (`ENV` in the Dockerfile) and bytecode that was compiled before. With --pods it is measured
twice: as it is, and following so many pods on a scripted API server, one of which changes each second and one of which
restarts every 10 s. The targets are 42 MB and 0.4 % of a core, at any number of nodes. What was imported is printed
apart: it is nearly all. As root only.
"""

import argparse
import asyncio
import contextlib
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any
from urllib.request import urlopen

import psutil
from msgspec import Struct

from leadsman.cli.demo import scheduler_request
from leadsman.state import keys
from leadsman.state.etcd_http import EtcdAccess
from leadsman.state.etcd_store import EtcdStore
from leadsman.state.records import RingCoordinate, RingEntry, encode_record
from leadsman.state.store import Put
from leadsman.testbed import namespaces
from leadsman.testbed.etcd import Etcd, free_ports
from leadsman.testbed.virtual_network import VirtualNetwork
from tests.dockerfile import environ_of
from tests.testbed.scripted_api_server import ApiServerThread

SCRAPE_EVERY_SECONDS = 15
RSS_TARGET_MB = 42
CPU_TARGET_RATIO = 0.004
WARM_UP_SECONDS = 20
RESTART_EVERY_SECONDS = 10
RTTS_MS = {f"host-{number}": 1.0 + 2.6 * number for number in range(16)}
CPUCLOCK_SCHED = 2
"""linux/posix-timers.h."""


class Usage(Struct, frozen=True):
    """What an agent uses of its node. scrape_bytes: of one response of /metrics."""

    rss_megabytes: float
    cpu_ratio: float
    wakeups_per_second: float
    threads: int
    scrape_bytes: int


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seconds", type=int, default=300)
    options.add_argument("--peers", type=int, default=16)
    options.add_argument("--pods", type=int, default=0)
    options.add_argument("--nodes", type=int, default=1000)
    args = options.parse_args()
    with network() as hosts, compiled_image_environ() as environ:
        addresses = [f"{hosts[n % len(hosts)]}.{n // len(hosts) % 254 + 1}" for n in range(args.nodes - 1)]
        for pods in dict.fromkeys((0, args.pods)):
            print(f"{args.peers} peers, {pods} pods" if pods else f"{args.peers} peers", flush=True)
            with agent_on_a_node(addresses, args.peers, pods, environ) as (process, url):
                report(use(process, url, args.seconds))
            print(f"imports  {imported_megabytes(environ):.1f} MB of the RSS, before anything runs", flush=True)


@contextlib.contextmanager
def network() -> Iterator[Sequence[str]]:
    """Puts this thread and what it starts on a host of a network: the first three bytes of the others' addresses.

    ICMP datagram sockets are allowed there, as the DaemonSet has it. A raw one gets the replies to all other processes.
    """
    paths = {("agent", host): rtt_ms for host, rtt_ms in RTTS_MS.items()}
    with VirtualNetwork(["agent", *RTTS_MS], paths) as net, namespaces.inside(net.namespace("agent")):
        yield [net.block(host).rpartition(".")[0] for host in RTTS_MS]


@contextlib.contextmanager
def compiled_image_environ() -> Iterator[Mapping[str, str]]:
    """Yields the environment of an agent in its image, which has the bytecode of all that an agent imports."""
    with tempfile.TemporaryDirectory() as bytecode:
        here = {"PYTHONPYCACHEPREFIX": bytecode, "PYTHONDONTWRITEBYTECODE": ""}
        environ = os.environ | environ_of("agent") | here
        imported_megabytes(environ)
        yield environ


@contextlib.contextmanager
def agent_on_a_node(
    addresses: Sequence[str], peers: int, pods: int, environ: Mapping[str, str]
) -> Iterator[tuple[psutil.Process, str]]:
    """Runs an agent on a node. addresses: of the other nodes."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Etcd(Path(folder) / "etcd") as etcd,
        ApiServerThread() if pods else contextlib.nullcontext() as api,
        running_pods(api, pods),
        running_agent(peers, etcd.client_url, api.url if api else "", environ) as agent,
    ):
        asyncio.run(write_ring_entries(etcd.client_url, addresses))
        yield agent


@contextlib.contextmanager
def running_pods(api: ApiServerThread | None, pods: int) -> Iterator[None]:
    """Runs the node's pods, and what becomes of them, until the block ends."""
    done = threading.Event()
    bodies = [pod(number) for number in range(pods)]
    for body in bodies:
        put(api, body)
    living = threading.Thread(target=change_pods, args=(api, bodies, done))
    living.start()
    try:
        yield
    finally:
        done.set()
        living.join()


def change_pods(api: ApiServerThread | None, bodies: list[dict[str, Any]], done: threading.Event) -> None:
    seconds = 0
    while bodies and not done.wait(1.0):
        seconds += 1
        body = bodies[seconds % len(bodies)]
        body["metadata"].setdefault("annotations", {})["touched"] = str(seconds)
        if seconds % RESTART_EVERY_SECONDS == 0:
            container = body["status"]["containerStatuses"][0]
            container["restartCount"] += 1
            container["lastState"] = {"terminated": {"exitCode": 1, "reason": "Error"}}
        put(api, body)


def put(api: ApiServerThread | None, body: dict[str, Any]) -> None:
    assert api is not None
    api.put(f"/api/v1/namespaces/default/pods/{body['metadata']['name']}", body)


def pod(number: int) -> dict[str, Any]:
    """Returns a pod as a real kube-scheduler saw it, running, of one of 30 types."""
    body: dict[str, Any] = scheduler_request.captured_args([], {"app": f"type-{number % 30}"})["Pod"]
    body["metadata"] |= {"name": f"pod-{number}", "uid": f"0c3a8f5e-7a53-4a3b-9d0e-{number:012}"}
    body["spec"]["nodeName"] = "bench"
    state = {"running": {"startedAt": "2026-03-01T12:00:00Z"}}
    container = {"name": "main", "restartCount": 0, "ready": True, "state": state, "lastState": {}}
    body["status"] = {"phase": "Running", "podIP": "127.0.0.9", "containerStatuses": [container]}
    return body


@contextlib.contextmanager
def running_agent(
    peers: int, etcd_url: str, api_url: str, environ: Mapping[str, str]
) -> Iterator[tuple[psutil.Process, str]]:
    listen = f"127.0.0.1:{free_ports(1)[0]}"
    command = [sys.executable, "-m", "leadsman.cli.main", "agent", "--node-name", "bench", "--address", "127.0.0.1"]
    command += ["--max-peers", str(peers), "--etcd", etcd_url, "--listen", listen]
    command += ["--kube-api", api_url] if api_url else []
    agent = subprocess.Popen(command, env=environ)
    try:
        yield psutil.Process(agent.pid), f"http://{listen}"
    finally:
        agent.terminate()
        agent.wait()


async def write_ring_entries(etcd_url: str, addresses: Iterable[str]) -> None:
    """Writes an entry for each address, with a coordinate, so that some are near."""
    rng, store = Random(1), EtcdStore(EtcdAccess((etcd_url,)))
    puts = []
    for number, address in enumerate(addresses):
        there = RingCoordinate(tuple(round(rng.uniform(0, 20), 3) for _ in range(4)), 0.1, 0.0, 0.2)
        entry = RingEntry(address, coordinate=there, reach_ms=5.0)
        puts.append(Put(keys.record_key(f"node-{number:05}", RingEntry), encode_record(entry)))
    try:
        await store.write(puts)
    finally:
        await store.close()


def use(process: psutil.Process, url: str, seconds: int) -> Usage:
    """Returns what the process used after the first seconds, scraped as Prometheus does."""
    time.sleep(WARM_UP_SECONDS)
    started, busy, woken = time.monotonic(), busy_seconds(process), wakeups(process)
    while (left := seconds - (time.monotonic() - started)) > 0:
        scrape = urlopen(f"{url}/metrics", timeout=5).read()
        print(f"\r{left:4.0f} s left  {megabytes(process):.1f} MB  ", end="", file=sys.stderr, flush=True)
        time.sleep(min(SCRAPE_EVERY_SECONDS, left))
    elapsed = time.monotonic() - started
    return Usage(
        megabytes(process),
        (busy_seconds(process) - busy) / elapsed,
        (wakeups(process) - woken) / elapsed,
        process.num_threads(),
        len(scrape),
    )


def report(usage: Usage) -> None:
    rss, cpu = usage.rss_megabytes, usage.cpu_ratio
    print(f"\nRSS      {rss:.1f} MB        target {RSS_TARGET_MB} MB: {verdict(rss <= RSS_TARGET_MB)}")
    print(f"CPU      {cpu:.3%} of a core  target {CPU_TARGET_RATIO:.1%}: {verdict(cpu <= CPU_TARGET_RATIO)}")
    print(f"wake-ups {usage.wakeups_per_second:.1f} a second")
    print(f"threads  {usage.threads}\nscrape   {usage.scrape_bytes} bytes")


def imported_megabytes(environ: Mapping[str, str]) -> float:
    """Returns the RSS of a process that has imported what an agent imports."""
    program = (
        "from leadsman.cli import main; from leadsman.runtime.lean_aiohttp import import_aiohttp; import_aiohttp(); "
        "main.build_parser({}, 'agent'); import agent.run, psutil; print(psutil.Process().memory_info().rss)"
    )
    return int(subprocess.check_output([sys.executable, "-c", program], env=environ)) / 1e6


def busy_seconds(process: psutil.Process) -> float:
    """Returns the CPU time of all threads by the clock that clock_getcpuclockid(3) names; /proc counts in 10 ms."""
    return time.clock_gettime(~process.pid << 3 | CPUCLOCK_SCHED)


def wakeups(process: psutil.Process) -> int:
    """Counts how often the process's threads waited for something."""
    return int(process.num_ctx_switches().voluntary)


def megabytes(process: psutil.Process) -> float:
    return float(process.memory_info().rss / 1e6)


def verdict(met: bool) -> str:
    return "met" if met else "NOT met"


if __name__ == "__main__":
    main()
