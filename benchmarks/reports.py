"""What reports of 5,000 nodes cost the requests that come meanwhile. `python -m benchmarks.reports`

A real etcd holds the state of all nodes (`benchmarks.start`), a real extender answers filter for a bounded pod over all
names, one call after the other. In every second phase a process writes heartbeat and delays of 167 nodes a second, as
5,000 agents do, each node in a transaction of its own. Of each kind of phase: calls, p50, p99, the slowest, and their
ratios. Writer, etcd and extender share the machine: what two cores are short of is in the ratio too.
"""

import argparse
import asyncio
import itertools
import json
import multiprocessing
import random
import tempfile
import time
from collections.abc import Sequence
from http.client import HTTPConnection
from pathlib import Path

from msgspec import structs

from benchmarks.start import REFERENCE, fill, is_ready, knows_the_state, records_of, running_extender, wait_for
from leadsman.state import codec, keys
from leadsman.state.etcd_http import EtcdAccess
from leadsman.state.etcd_store import EtcdStore
from leadsman.state.key_values import Put
from leadsman.state.records import Heartbeat, Latency
from leadsman.testbed.etcd import Etcd

REPORTS_PER_SECOND = 167
PHASE_SECONDS = 10.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args()
    names = [f"node-{number:05}" for number in range(chosen.nodes)]
    pod = {"metadata": {"name": "p", "labels": {f"delay_{REFERENCE}": "50"}}, "spec": {}}
    body = json.dumps({"Pod": pod, "NodeNames": names}).encode()
    quiet: list[float] = []
    reported: list[float] = []
    with tempfile.TemporaryDirectory() as folder, Etcd(Path(folder) / "data") as etcd:
        asyncio.run(fill(etcd.client_url, names, random.Random(1)))
        with running_extender(Path.cwd(), etcd.client_url) as (process, url, ops_url):
            wait_for(lambda: is_ready(f"{ops_url}/readyz"), process)
            wait_for(lambda: knows_the_state(url, body), process)
            for round_number in range(chosen.rounds):
                quiet += ask(url, body)
                writer = multiprocessing.get_context("spawn").Process(
                    target=write_reports, args=(etcd.client_url, names, round_number + 2), daemon=True
                )
                writer.start()
                reported += ask(url, body)
                writer.terminate()
                writer.join()
    show("no reports", quiet, quiet)
    show(f"{REPORTS_PER_SECOND} reports a second", reported, quiet)


def ask(url: str, body: bytes) -> list[float]:
    """Milliseconds of each call in a phase."""
    connection = HTTPConnection(url.removeprefix("http://"))
    times, end = [], time.perf_counter() + PHASE_SECONDS
    while time.perf_counter() < end:
        began = time.perf_counter()
        connection.request("POST", "/filter", body, {"Content-Type": "application/json"})
        connection.getresponse().read()
        times.append(1000 * (time.perf_counter() - began))
    connection.close()
    return times


def write_reports(etcd_url: str, names: Sequence[str], first_seq: int) -> None:
    asyncio.run(_report(etcd_url, names, first_seq))


async def _report(etcd_url: str, names: Sequence[str], first_seq: int) -> None:
    store, rng = EtcdStore(EtcdAccess((etcd_url,), call_timeout_seconds=5.0)), random.Random(first_seq)
    began = time.perf_counter()
    for number in itertools.count():
        node = names[number % len(names)]
        heartbeat = structs.replace(Heartbeat(1, 1, 60.0), seq=first_seq + number)
        latency_key = keys.record_key(node, Latency)
        latency = [put for put in records_of(node, names, rng) if put.key == latency_key]
        await store.write([Put(keys.record_key(node, Heartbeat), codec.encode(heartbeat)), *latency])
        await asyncio.sleep(began + number / REPORTS_PER_SECOND - time.perf_counter())


def show(name: str, times: Sequence[float], beside: Sequence[float]) -> None:
    p50, p99 = quantile(times, 0.5), quantile(times, 0.99)
    ratios = f"{p50 / quantile(beside, 0.5):5.2f} x p50 {p99 / quantile(beside, 0.99):5.2f} x p99"
    print(f"{name:24} {len(times):6} calls  p50 {p50:6.1f}  p99 {p99:6.1f}  max {max(times):6.1f} ms  {ratios}")


def quantile(times: Sequence[float], share: float) -> float:
    return sorted(times)[min(len(times) - 1, round(share * len(times)))]


if __name__ == "__main__":
    main()
