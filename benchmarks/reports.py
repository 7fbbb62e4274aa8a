"""What reports of 5,000 nodes cost the requests that come meanwhile. `python -m benchmarks.reports`

A real etcd holds the state of all nodes (`benchmarks.start`), a real extender answers filter for a bounded pod over all
names, one call after the other, in three kinds of phases that take turns: nothing is written; a process writes
heartbeat and delays of 167 nodes a second, as 5,000 agents do, each node in a transaction of its own, under keys that
nobody follows; it writes the same as reports. Writer, etcd and extender share the machine, so what reports cost the
extender is in the ratio of the third to the second. Every report moves the delay at random across the bound, so that
each changes the answer: the dearest case.

Of each kind: calls, p50, p99, the slowest, and ratios to each kind; the same of the CPU time that the extender's event
loop used during a call, which other processes hardly change and a fit of estimates on its own thread not at all.
"""

import argparse
import asyncio
import itertools
import json
import multiprocessing
import random
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import NamedTuple

import psutil
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
    calls: dict[str | None, list[Call]] = {NOTHING: [], ELSEWHERE: [], REPORTS: []}
    with tempfile.TemporaryDirectory() as folder, Etcd(Path(folder) / "data") as etcd:
        asyncio.run(fill(etcd.client_url, names, random.Random(1)))
        with running_extender(Path.cwd(), etcd.client_url) as (process, url, ops_url):
            wait_for(lambda: is_ready(f"{ops_url}/readyz"), process)
            wait_for(lambda: knows_the_state(url, body), process)
            for round_number, prefix in itertools.product(range(chosen.rounds), calls):
                with writing(prefix, etcd.client_url, names, round_number + 2):
                    calls[prefix] += ask(url, body, process)
    for measure in Call._fields:
        times = {prefix: sorted(getattr(call, measure) for call in each) for prefix, each in calls.items()}
        show(f"{measure}: nothing is written", times[NOTHING], times)
        show(f"{measure}: {REPORTS_PER_SECOND} writes a second elsewhere", times[ELSEWHERE], times)
        show(f"{measure}: {REPORTS_PER_SECOND} reports a second", times[REPORTS], times)


class Call(NamedTuple):
    wall_ms: float
    cpu_ms: float


NOTHING, ELSEWHERE, REPORTS = None, "/elsewhere", ""
"""What is written in a phase: the prefix of the reports' keys."""


@contextmanager
def writing(prefix: str | None, etcd_url: str, names: Sequence[str], first_seq: int) -> Iterator[None]:
    if prefix is None:
        yield
        return
    writer = multiprocessing.get_context("spawn").Process(
        target=write_reports, args=(prefix, etcd_url, names, first_seq), daemon=True
    )
    writer.start()
    try:
        yield
    finally:
        writer.terminate()
        writer.join()


def ask(url: str, body: bytes, process: psutil.Popen) -> list[Call]:
    """The calls of a phase."""
    connection = HTTPConnection(url.removeprefix("http://"))
    calls, end = [], time.perf_counter() + PHASE_SECONDS
    while time.perf_counter() < end:
        began, used_ms = time.perf_counter(), loop_cpu_ms(process)
        connection.request("POST", "/filter", body, {"Content-Type": "application/json"})
        connection.getresponse().read()
        calls.append(Call(1000 * (time.perf_counter() - began), loop_cpu_ms(process) - used_ms))
    connection.close()
    return calls


def loop_cpu_ms(process: psutil.Popen) -> float:
    """Of the main thread. Source: the first number of schedstat, Documentation/scheduler/sched-stats.rst."""
    return int(Path(f"/proc/{process.pid}/task/{process.pid}/schedstat").read_text().split()[0]) / 1e6


def write_reports(prefix: str, etcd_url: str, names: Sequence[str], first_seq: int) -> None:
    asyncio.run(_report(prefix, etcd_url, names, first_seq))


async def _report(prefix: str, etcd_url: str, names: Sequence[str], first_seq: int) -> None:
    store, rng = EtcdStore(EtcdAccess((etcd_url,), call_timeout_seconds=5.0)), random.Random(first_seq)
    began = time.perf_counter()
    for number in itertools.count():
        node = names[number % len(names)]
        heartbeat = structs.replace(Heartbeat(1, 1, 60.0), seq=first_seq + number)
        latency_key = keys.record_key(node, Latency)
        latency = next(put.value for put in records_of(node, names, rng) if put.key == latency_key)
        beat = Put(prefix + keys.record_key(node, Heartbeat), codec.encode(heartbeat))
        await store.write([beat, Put(prefix + latency_key, latency)])
        await asyncio.sleep(began + number / REPORTS_PER_SECOND - time.perf_counter())


def show(name: str, times: Sequence[float], beside: Mapping[str | None, Sequence[float]]) -> None:
    """times: sorted, as in `beside`."""
    p50, p99 = quantile(times, 0.5), quantile(times, 0.99)
    ratios = (
        f"{p50 / quantile(other, 0.5):5.2f} x p50 {p99 / quantile(other, 0.99):5.2f} x p99" for other in beside.values()
    )
    figures = f"{len(times):6} calls  p50 {p50:6.2f}  p99 {p99:6.2f}  max {times[-1]:6.1f} ms"
    print(f"{name:40} {figures}  {'  '.join(ratios)}", flush=True)


def quantile(ascending: Sequence[float], share: float) -> float:
    return ascending[min(len(ascending) - 1, round(share * len(ascending)))]


if __name__ == "__main__":
    main()
