"""Measures what an answer costs: the extender against an echo server. `python -m benchmarks.extender`

As kube-scheduler does: one keep-alive connection, filter then prioritize, strictly serial. Each server has a process of
its own; the two are asked in turn, so that both meet the same noise, and both to prioritize what ours keeps. The bodies
are those of tests/data/captures, those of 5,000 full nodes made by repeating the captured ones. Times are of one pod,
filter and prioritize together.

Names are offered in 16 orders, one after the other: kube-scheduler 1.36 filters in 16 goroutines and offered 1,000
names in 18 orders for 40 pods. Full nodes are offered in one.
"""

import argparse
import gzip
import json
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import count, cycle, islice
from pathlib import Path
from urllib.request import Request, urlopen

import psutil
from msgspec import Struct

from leadsman.runtime.lean_aiohttp import WHILE_IMPORTING
from tests.dockerfile import malloc_limits

CAPTURES = Path(__file__).parents[1] / "tests" / "data" / "captures"
ROUNDS = 5
ORDERS = 16


class Case(Struct, frozen=True):
    """One case to measure: what is asked, and of which state.

    state: number of nodes with fresh data.
    labels: added to the pod.
    pods: number of pods asked about.
    """

    form: str
    nodes: int
    pod: str
    state: int
    labels: bytes
    pods: int


def cases() -> Iterator[Case]:
    for form, nodes, pods in FORMS:
        yield Case(form, nodes, "no data", 0, b"", pods)
        yield Case(form, nodes, "plain", nodes, b"", pods)
        yield Case(form, nodes, "delay", nodes, b'"delay_node-00000":"50",', pods)


FORMS = [
    ("names", 100, 1000),
    ("names", 1000, 500),
    ("names", 5000, 300),
    ("nodes", 100, 300),
    ("nodes", 1000, 40),
    ("nodes", 5000, 10),
]


class MeasuredServer:
    """Runs a server's process, and a client's connection to it with as little as possible in between."""

    def __init__(self, process: psutil.Process, port: int) -> None:
        self.process, self.base_url = process, f"http://127.0.0.1:{port}"
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.walls_ms: list[float] = []
        self.cpu_ms = 0.0

    def schedule_pods(self, bodies: Sequence[tuple[bytes, bytes]], number: int) -> None:
        """Asks filter and prioritize about `number` pods, each with its own UID, and keeps the times.

        bodies: those of the two verbs, taken in turn.
        """
        cpu_ms = self.used_cpu_ms()
        for pair in islice(cycle(bodies), number):
            uid = next_uid()
            filter_body, prioritize_body = (with_uid(body, uid) for body in pair)
            began = time.perf_counter()
            self.ask("filter", filter_body)
            self.ask("prioritize", prioritize_body)
            self.walls_ms.append((time.perf_counter() - began) * 1000)
        self.cpu_ms += self.used_cpu_ms() - cpu_ms

    def prioritize_body(self, body: bytes) -> bytes:
        """Returns what kube-scheduler asks to prioritize next: about the nodes kept, in the order answered."""
        with urlopen(Request(f"{self.base_url}/filter", body, {"Content-Type": "application/json"})) as answer:
            answered = json.load(answer)
        kept = {key: answered[key] for key in ("Nodes", "NodeNames")}
        return json.dumps(json.loads(body) | kept, separators=(",", ":")).encode()

    def peak_mib(self) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) / 1024

    def close(self) -> None:
        self._socket.close()

    def used_cpu_ms(self) -> float:
        """Returns CPU time of all live threads: schedstat's first number, Documentation/scheduler/sched-stats.rst."""
        threads = Path(f"/proc/{self.process.pid}/task").glob("*/schedstat")
        return sum(int(each.read_text().split()[0]) for each in threads) / 1e6

    def ask(self, verb: str, body: bytes) -> None:
        head = f"POST /{verb} HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n"
        self._socket.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode())
        self._socket.sendall(body)
        received = self._socket.recv(1 << 20)
        end = received.index(b"\r\n\r\n") + 4
        if not received.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(received.decode())
        length = int(received[:end].lower().split(b"content-length:")[1].split(b"\r\n")[0])
        missing = length - (len(received) - end)
        while missing > 0:
            missing -= len(self._socket.recv(1 << 20))


def with_uid(body: bytes, uid: bytes) -> bytes:
    """Returns the body for the next pod of the same workload. uid: the first characters of its UID."""
    before, key, after = body.partition(b'"uid":"')
    return b"".join((before, key, uid, after[len(uid) :]))


_UIDS = count()


def next_uid() -> bytes:
    return f"{next(_UIDS):08}".encode()


SERVERS_ENVIRON = os.environ | malloc_limits("") | WHILE_IMPORTING | {"OPENBLAS_NUM_THREADS": "1"}
"""As the image and `leadsman extender` set it."""


@contextmanager
def start_server(module: str, *arguments: str) -> Iterator[MeasuredServer]:
    command = [sys.executable, "-m", module, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=SERVERS_ENVIRON) as process:
        assert process.stdout
        made = MeasuredServer(psutil.Process(process.pid), int(process.stdout.readline()))
        try:
            yield made
        finally:
            made.close()
            process.terminate()


def filter_body(case: Case) -> bytes:
    """Returns the captured filter body, with the case's labels."""
    captured = min(case.nodes, 1000) if case.form == "nodes" else case.nodes
    body = gzip.decompress((CAPTURES / f"{case.form}-{captured}-filter.json.gz").read_bytes())
    if captured < case.nodes:
        body = _repeated(body, case.nodes)
    return body.replace(b'"labels":{', b'"labels":{' + case.labels, 1)


def in_orders(body: bytes) -> Iterator[bytes]:
    """Yields the body with its names turned on by equal steps; one of full nodes as it is."""
    args = json.loads(body)
    names = args["NodeNames"]
    if not names:
        yield body
        return
    for start in range(0, ORDERS * (len(names) // ORDERS), len(names) // ORDERS):
        turned = args | {"NodeNames": names[start:] + names[:start]}
        yield json.dumps(turned, separators=(",", ":")).encode()


def _repeated(body: bytes, nodes: int) -> bytes:
    args = json.loads(body)
    items = args["Nodes"]["items"]
    args["Nodes"]["items"] = [
        item | {"metadata": item["metadata"] | {"name": f"node-{copy * len(items) + position:05}"}}
        for copy in range(nodes // len(items))
        for position, item in enumerate(items)
    ]
    return json.dumps(args, separators=(",", ":")).encode()


def measure(case: Case) -> None:
    share = max(1, case.pods // ROUNDS)
    with ExitStack() as stack:
        echo = stack.enter_context(start_server("benchmarks.echo_extender"))
        ours = stack.enter_context(start_server("benchmarks.extender_server", str(case.state)))
        bodies = [(body, ours.prioritize_body(body)) for body in in_orders(filter_body(case))]
        for one in (echo, ours):
            one.schedule_pods(bodies, share)
            one.walls_ms, one.cpu_ms = [], 0.0
        for _ in range(ROUNDS):
            for one in (echo, ours):
                one.schedule_pods(bodies, share)
        report(case, echo, ours)


def report(case: Case, echo: MeasuredServer, ours: MeasuredServer) -> None:
    ratio = statistics.median(ours.walls_ms) / statistics.median(echo.walls_ms)
    cpu_ratio = ours.cpu_ms / echo.cpu_ms
    cells = "  ".join(f"{_percentiles(one)} {one.peak_mib():6.0f}" for one in (echo, ours))
    print(f"{case.form:5} {case.nodes:5} {case.pod:7} {cells}  {ratio:5.2f} {cpu_ratio:5.2f}", flush=True)


def _percentiles(one: MeasuredServer) -> str:
    walls = sorted(one.walls_ms)
    p99 = walls[min(len(walls) - 1, round(0.99 * len(walls)))]
    return f"{statistics.median(walls):8.2f} {p99:8.2f} {one.cpu_ms / len(walls):8.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--form", choices=["names", "nodes"], help="only this form")
    parser.add_argument("--nodes", type=int, help="only this many nodes")
    chosen = parser.parse_args()
    columns = "p50 ms   p99 ms   CPU ms peak MiB"
    print(f"form  nodes pod         echo: {columns}     ours: {columns}   wall   CPU")
    for case in cases():
        if chosen.form in (None, case.form) and chosen.nodes in (None, case.nodes):
            measure(case)


if __name__ == "__main__":
    main()
