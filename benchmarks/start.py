"""Measures a start of the extender with the state of 5,000 nodes in etcd. `python -m benchmarks.start`

A real etcd holds what agents write: identity, heartbeat, delays to 17 peers, hardware and ten rewards of each node. The
extender is started again and again as a process; the time runs from exec. Seconds until the first answer to filter and
prioritize that is made on what etcd holds; CPU and RSS by then. /readyz also waits for each node's next report.
"""

import argparse
import asyncio
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import psutil
from msgspec import Struct, structs

from leadsman.state import keys, metric_names
from leadsman.state.etcd_http import EtcdAccess
from leadsman.state.etcd_store import EtcdStore
from leadsman.state.records import AnyRecord, Hardware, Heartbeat, Identity, Latency, PeerLatency, Reward, encode_record
from leadsman.state.store import Put
from leadsman.testbed.etcd import Etcd, free_ports
from tests.dockerfile import malloc_limits

PEERS, POD_TYPES = 16, 10
KEYS_PER_WRITE = 120
READY_WITHIN_SECONDS = 120.0
REFERENCE = "node-00000"


class Start(Struct, frozen=True):
    answered_seconds: float
    cpu_seconds: float
    rss_mib: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=7)
    chosen = parser.parse_args()
    names = [f"node-{number:05}" for number in range(chosen.nodes)]
    with tempfile.TemporaryDirectory() as folder, Etcd(Path(folder) / "data") as etcd:
        asyncio.run(fill(etcd.client_url, names, random.Random(1)))
        report([start_once(etcd.client_url, names) for _ in range(chosen.rounds)])


async def fill(etcd_url: str, names: Sequence[str], rng: random.Random) -> None:
    store = EtcdStore(EtcdAccess((etcd_url,), call_timeout_seconds=5.0))
    puts = [put for node in names for put in records_of(node, names, rng)]
    for begin in range(0, len(puts), KEYS_PER_WRITE):
        await store.write(puts[begin : begin + KEYS_PER_WRITE])
    await store.close()


def records_of(node: str, names: Sequence[str], rng: random.Random) -> list[Put]:
    peers = {REFERENCE, *rng.sample(names, min(PEERS, len(names)))} - {node}
    records: list[AnyRecord] = [
        Identity("pod", 1, "10.0.0.1"),
        Heartbeat(1, 1, 60.0),
        Latency({peer: _measured(rng.uniform(0.1, 100)) for peer in sorted(peers)}),
        Hardware({metric: rng.random() for metric in METRICS}),
    ]
    reward = encode_record(Reward(rng.random(), healthy=rng.uniform(0, 50)))
    return [
        *(Put(keys.record_key(node, type(each)), encode_record(each)) for each in records),
        *(Put(keys.reward_key(node, f"type-{number}"), reward) for number in range(POD_TYPES)),
    ]


def _measured(ms: float) -> PeerLatency:
    return PeerLatency(30, 30, p50_ms=ms, p95_ms=2 * ms, min_ms=ms / 2, jitter_ms=ms / 10)


METRICS = [metric_names.CPU_PRESSURE, metric_names.MEMORY_PRESSURE, metric_names.CPU_BUSY, metric_names.LOAD_PER_CPU]


@contextmanager
def running_extender(etcd_url: str) -> Iterator[tuple[psutil.Popen, str, str]]:
    """Runs the extender as a process; yields it, its URL, and the operators'."""
    listen, ops = free_ports(2)
    addresses = [f"--listen=127.0.0.1:{listen}", f"--ops-listen=127.0.0.1:{ops}", "--api-listen=127.0.0.1:0"]
    flags = ["--plain-http", "--etcd", etcd_url, "--log-level=error", *addresses]
    process = psutil.Popen(
        [sys.executable, "-m", "leadsman.cli.main", "extender", *flags],
        env=os.environ | malloc_limits(""),
        stdout=subprocess.DEVNULL,
    )
    try:
        yield process, f"http://127.0.0.1:{listen}", f"http://127.0.0.1:{ops}"
    finally:
        process.kill()  # It would drain.
        process.wait()


def start_once(etcd_url: str, names: Sequence[str]) -> Start:
    began = time.perf_counter()
    with running_extender(etcd_url) as (process, url, ops_url):
        wait_for(lambda: has_listed(f"{ops_url}/readyz"), process)
        pod = {"metadata": {"name": "p", "labels": {f"delay_{REFERENCE}": "50"}}, "spec": {}}
        body = json.dumps({"Pod": pod, "NodeNames": list(names)}).encode()
        wait_for(lambda: knows_the_state(url, body), process)
        answered = time.perf_counter()
        used = process.cpu_times()
        return Start(answered - began, used.user + used.system, process.memory_info().rss / 2**20)


def has_listed(url: str) -> bool:
    """Tells whether /readyz waits for nothing but nodes' next reports; requests before would slow the listing."""
    try:
        with urlopen(url) as answer:
            return bool(answer.status == 200)
    except HTTPError as error:
        return error.read().startswith(b"waits for each node's next report")
    except OSError:
        return False


def knows_the_state(url: str, body: bytes) -> bool:
    """Tells whether filter answers by what etcd holds; prioritize is asked too. Of a node it has not read, filter says
    that its delay is not measured; of one read at the start, that no new report has confirmed it."""
    with urlopen(Request(f"{url}/filter", body, {"Content-Type": "application/json"})) as answer:
        refused = json.load(answer)["FailedAndUnresolvableNodes"]
    with urlopen(Request(f"{url}/prioritize", body, {"Content-Type": "application/json"})) as answer:
        answer.read()
    return not any("not measured" in reason for reason in refused.values())


def wait_for(condition: Callable[[], bool], process: psutil.Popen) -> None:
    deadline = time.perf_counter() + READY_WITHIN_SECONDS
    while time.perf_counter() < deadline and process.poll() is None:
        if condition():
            return
        time.sleep(0.01)
    raise RuntimeError(f"the extender did not answer in {READY_WITHIN_SECONDS:g} s, exit status {process.poll()}")


def report(starts: Sequence[Start]) -> None:
    columns = zip(*map(structs.astuple, starts), strict=True)
    answered, cpu, rss = (statistics.median(values) for values in columns)
    print(f"answered {answered:.2f} s  CPU {cpu:.2f} s  {rss:.0f} MiB")


if __name__ == "__main__":
    main()
