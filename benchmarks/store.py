"""Our EtcdStore against the PyPI client etcd3 0.12 on the same etcd: throughput, CPU, and CPU while etcd is away.

    pip install leadsman[bench,local]; python -m benchmarks.store

Where etcd3 cannot be imported, its column says why. Each client runs in a process of its own.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import psutil

from leadsman.testbed.etcd import Etcd

PUTS = 500
TRANSACTIONS = 20
TRANSACTION_PUTS = 100
LISTED_KEYS = 5_000
VALUE = b"x" * 2048
LISTINGS = 3
DOWN_SECONDS = 5
WATCH_SECONDS = 3600

# What protoc 3 made for etcd3 is refused by the C implementation of protobuf 4 and newer.
CHILD_ENVIRONMENT = os.environ | {"PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": "python"}

Row = dict[str, float]


class Client(Protocol):
    def put(self, key: str) -> None: ...
    def transaction(self, keys: list[str]) -> None: ...
    def listing(self, prefix: str) -> int: ...
    def follow(self, prefix: str) -> None:
        """Watches and keeps a lease alive, until the process is killed."""


class LeadsmanClient:
    def __init__(self, port: int):
        from leadsman.state.etcd_http import EtcdAccess
        from leadsman.state.etcd_store import EtcdStore

        self._loop = asyncio.new_event_loop()
        self._store = EtcdStore(EtcdAccess((f"http://127.0.0.1:{port}",)))

    def put(self, key: str) -> None:
        self.transaction([key])

    def transaction(self, keys: list[str]) -> None:
        from leadsman.state.store import Put

        self._loop.run_until_complete(self._store.write([Put(key, VALUE) for key in keys]))

    def listing(self, prefix: str) -> int:
        return len(self._loop.run_until_complete(self._store.read_prefix(prefix)).items)

    def follow(self, prefix: str) -> None:
        self._loop.run_until_complete(self._follow(prefix))

    async def _follow(self, prefix: str) -> None:
        from leadsman.state.follower import Follower

        async with asyncio.TaskGroup() as group:
            group.create_task(Follower(self._store, prefix).run())
            group.create_task(self._keep_alive())

    async def _keep_alive(self) -> None:
        from leadsman.state.store import StoreError

        lease = await self._store.grant(WATCH_SECONDS)
        print(flush=True)
        while True:
            await asyncio.sleep(1)
            try:
                await self._store.keep_alive(lease)
            except StoreError:
                continue


class Etcd3Client:
    def __init__(self, port: int):
        import etcd3

        # Without the option a listing above 4 MiB fails for good: "Received message larger than max".
        options = {"grpc.max_receive_message_length": -1}.items()
        self._client = etcd3.client(host="127.0.0.1", port=port, timeout=10, grpc_options=options)

    def put(self, key: str) -> None:
        self._client.put(key, VALUE)

    def transaction(self, keys: list[str]) -> None:
        puts = [self._client.transactions.put(key, VALUE) for key in keys]
        self._client.transaction(compare=[], success=puts, failure=[])

    def listing(self, prefix: str) -> int:
        return len(list(self._client.get_prefix(prefix)))

    def follow(self, prefix: str) -> None:
        self._client.watch_prefix(prefix)
        lease = self._client.lease(WATCH_SECONDS)
        print(flush=True)
        while True:
            time.sleep(1)
            try:
                lease.refresh()
            except Exception as error:
                print(type(error).__name__, file=sys.stderr)


CLIENTS: dict[str, Callable[[int], Client]] = {"ours": LeadsmanClient, "etcd3": Etcd3Client}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--client", choices=CLIENTS, help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--follow", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.client is None:
        compare()
    elif args.follow:
        CLIENTS[args.client](args.port).follow("/bench/")
    else:
        print(json.dumps(measure(CLIENTS[args.client](args.port))))


def compare() -> None:
    rows = {}
    for name in CLIENTS:
        with tempfile.TemporaryDirectory() as folder, Etcd(Path(folder) / "data") as etcd:
            done = subprocess.run(
                _command(name, etcd), capture_output=True, text=True, check=False, env=CHILD_ENVIRONMENT
            )
            if done.returncode:
                print(f"{name} does not run here: {done.stderr.strip().splitlines()[-1]}")
            else:
                rows[name] = json.loads(done.stdout) | {
                    "CPU while etcd is away, of a core": cpu_while_etcd_down(name, etcd)
                }
    report(rows)


def measure(client: Client) -> Row:
    row: Row = {}
    with timed(row, "puts/s", PUTS):
        for i in range(PUTS):
            client.put(f"/bench/{i % 100}")
    with timed(row, "puts/s in transactions of 100", TRANSACTIONS * TRANSACTION_PUTS):
        for _ in range(TRANSACTIONS):
            client.transaction([f"/bench/{i}" for i in range(TRANSACTION_PUTS)])
    for start in range(0, LISTED_KEYS, TRANSACTION_PUTS):
        client.transaction([f"/list/{start + i:05}" for i in range(TRANSACTION_PUTS)])
    with timed(row, "listings/s of 5,000 x 2 KiB", LISTINGS):
        assert [client.listing("/list/") for _ in range(LISTINGS)] == [LISTED_KEYS] * LISTINGS
    return row


@contextmanager
def timed(row: Row, name: str, count: int) -> Iterator[None]:
    began, cpu = time.monotonic(), time.process_time()
    yield
    row[name] = count / (time.monotonic() - began)
    row[f"{name}: CPU ms each"] = (time.process_time() - cpu) * 1000 / count


def cpu_while_etcd_down(name: str, etcd: Etcd) -> float:
    """Share of a core that a watching client takes while etcd is dead."""
    with subprocess.Popen(
        [*_command(name, etcd), "--follow"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=CHILD_ENVIRONMENT
    ) as run:
        assert run.stdout
        run.stdout.readline()
        process = psutil.Process(run.pid)
        etcd.kill()
        before = _cpu_seconds(process)
        time.sleep(DOWN_SECONDS)
        used = _cpu_seconds(process) - before
        run.kill()
    return used / DOWN_SECONDS


def _cpu_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _command(name: str, etcd: Etcd) -> list[str]:
    return [sys.executable, "-m", "benchmarks.store", "--client", name, "--port", str(etcd.port)]


def report(rows: dict[str, Any]) -> None:
    print(f"{'':46}" + "".join(f"{name:>12}" for name in rows) + f"{'ours / etcd3':>14}")
    for what in rows["ours"]:
        values = [row[what] for row in rows.values()]
        ratio = f"{values[0] / values[1]:14.3f}" if len(values) > 1 and values[1] else ""
        print(f"{what:46}" + "".join(f"{value:12.3f}" for value in values) + ratio)


if __name__ == "__main__":
    main()
