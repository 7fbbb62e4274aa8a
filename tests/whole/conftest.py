"""The system as a whole: real processes, a real etcd, real sockets."""

import base64
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from leadsman.state import keys
from leadsman.state.etcd_http import EtcdAccess
from leadsman.state.etcd_store import EtcdStore
from leadsman.state.records import AnyRecord, Reward, encode_record
from leadsman.state.store import Put
from leadsman.testbed.etcd import Etcd, free_ports
from tests.leadsman_process import LeadsmanProcess
from tests.testbed.scripted_api_server import ApiServerThread

QUICK = ["--push-interval-seconds", "1", "--call-timeout-seconds", "1", "--probe-interval-seconds", "0.2"]


Start = Callable[..., LeadsmanProcess]


@pytest.fixture
def etcd(tmp_path: Path) -> Iterator[Etcd]:
    with Etcd(tmp_path / "etcd", flags=["--bcrypt-cost=4"]) as found:
        yield found


@pytest.fixture
def start(tmp_path: Path, etcd: Etcd) -> Iterator[Start]:
    """`start("agent", "--node-name", "a")`: on free ports, with the test's etcd. All are gone after the test."""
    running: list[LeadsmanProcess] = []

    def started(*arguments: str, host: str = "127.0.0.1", port: int = 0) -> LeadsmanProcess:
        free, ops, people = free_ports(3)
        port = port or free
        listen = ["--listen", f"{host}:{port}", "--etcd", etcd.client_url]
        plain = [] if "--tls-cert" in arguments else ["--plain-http"]
        extender = [*plain, "--drain-seconds=0", "--ops-listen", f"{host}:{ops}", f"--api-listen=127.0.0.1:{people}"]
        own = {"extender": extender, "agent": QUICK}
        more = own.get(arguments[0], [])
        urls = (f"http://{host}:{port}", f"http://{host}:{ops if arguments[0] == 'extender' else port}")
        running.append(
            LeadsmanProcess(
                [arguments[0], *listen, *more, *arguments[1:]],
                *urls,
                tmp_path / f"{len(running)}.log",
                api_url=f"http://127.0.0.1:{people}",
            )
        )
        return running[-1]

    yield started
    for process in running:
        process.kill()


@pytest.fixture
def api() -> Iterator[ApiServerThread]:
    with ApiServerThread() as one:
        yield one


@pytest.fixture
def agent(start: Start) -> Start:
    """`agent("a", 1)`: node a at 127.0.3.1."""

    def started(node: str, number: int, *more: str, port: int = 0) -> LeadsmanProcess:
        address = f"127.0.3.{number}"
        return start("agent", "--node-name", node, "--address", address, *more, host=address, port=port)

    return started


def records(etcd: Etcd, prefix: str) -> dict[str, Any]:
    """Key → content of what etcd has below the prefix, as etcdctl would show it."""
    first, end = (base64.b64encode(each.encode()).decode() for each in (prefix, prefix[:-1] + chr(ord(prefix[-1]) + 1)))
    found = etcd.post("/v3/kv/range", {"key": first, "range_end": end}).get("kvs", [])
    return {base64.b64decode(kv["key"]).decode(): json.loads(base64.b64decode(kv["value"])) for kv in found}


async def write_records(etcd: Etcd, by_node: Mapping[str, Iterable[AnyRecord | Reward]]) -> None:
    """As an agent of each node does; rewards are of the type web."""

    def key(node: str, each: AnyRecord | Reward) -> str:
        return keys.reward_key(node, "web") if isinstance(each, Reward) else keys.record_key(node, type(each))

    store = EtcdStore(EtcdAccess((etcd.client_url,)))
    for node, of_node in by_node.items():
        await store.write([Put(key(node, each), encode_record(each)) for each in of_node])
    await store.close()


def reward(etcd: Etcd) -> dict[str, Any]:
    """Of edge-1 for the type shop; {}: none yet."""
    return next(iter(records(etcd, keys.reward_key("edge-1", "shop")).values()), {})


def shop_pod(node: str = "edge-1", restarts: int = 0, connect_port: int = 0) -> dict[str, Any]:
    """One of the type shop that is ready."""
    last = {"terminated": {"exitCode": 1, "reason": "Error"}} if restarts else {}
    running = {"running": {"startedAt": "2026-03-01T12:00:00Z"}}
    container = {"name": "app", "restartCount": restarts, "ready": True, "state": running, "lastState": last}
    return {
        "metadata": {"labels": {"app": "shop"}, "annotations": {"example.com/connect-port": str(connect_port)}},
        "spec": {"nodeName": node, "containers": [{"name": "app"}]},
        "status": {"phase": "Running", "podIP": "127.0.0.1", "containerStatuses": [container]},
    }
