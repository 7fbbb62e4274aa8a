"""The steady load: a client an extender that schedules pods as kube-scheduler does, with answers known beforehand."""

import asyncio
import itertools
import json
import ssl
import time
from collections import deque
from collections.abc import Mapping
from random import Random
from typing import Any, NamedTuple

import aiohttp

from leadsman.cli.demo import scheduler_request
from tests.torture.cluster import CARD_MEMORY, I915, Cluster
from tests.torture.log import Answered, CardGiven, Crashed, Explained, UsedDelay
from tests.torture.shape import CARD_NODES, CLUSTER_NODES, CRASHING_NODES, CRASHING_TYPE, EXTENDERS, NODES, POD_GB

PODS = "/api/v1/namespaces/default/pods"
PODS_A_SECOND = 10.0
BOUND_NODE, BOUND_MS = "edge-1", 40
WITHIN_BOUND = frozenset(node for node, rtt_ms in NODES.items() if rtt_ms <= BOUND_MS)
EXPLAIN_EVERY = 5
CRASH_EVERY_SECONDS, CARD_EVERY_SECONDS = 4.0, 0.3
OVERRAN = "decision exceeded its deadline"
"""In the reason with which a bounded pod is refused when there was no time to decide."""

TIMEOUT_SECONDS = 5.0
"""What takes longer is a hang; what takes longer than kube-scheduler's httpTimeout is late."""


class Scheduled(NamedTuple):
    """What the two calls answered: the last fields of `Answered`, in its order."""

    status: int
    seconds: float
    kept: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    scores: tuple[tuple[str, Any], ...] = ()
    problem: str = ""
    overran: bool = False


class SchedulerClient:
    """Calls the extenders with kube-scheduler's certificate, over connections that it keeps."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        tls = ssl.create_default_context(cafile=cluster.certs / "ca.crt")
        tls.load_cert_chain(cluster.certs / "client.crt", cluster.certs / "client.key")
        self.tls = tls

    async def __aenter__(self) -> "SchedulerClient":
        timeout = aiohttp.ClientTimeout(total=TIMEOUT_SECONDS)
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=self.tls, limit=0), timeout=timeout)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def post(
        self, extender: str, verb: str, body: Any, timeout_seconds: float, headers: Mapping[str, str]
    ) -> int:
        """Status; 0 when the connection ended without an answer, -1 when nothing happened in time."""
        url, timeout = f"{self._cluster.processes[extender].url}/{verb}", aiohttp.ClientTimeout(total=timeout_seconds)
        headers = {"Content-Type": "application/json", **headers}
        try:
            async with self._session.post(url, data=body, headers=headers, timeout=timeout) as answer:
                await answer.read()
                return answer.status
        except TimeoutError:
            return -1
        except (aiohttp.ClientError, OSError):
            return 0

    async def schedule(self, extender: str, args: dict[str, Any]) -> Scheduled:
        """filter, then prioritize."""
        slowest = 0.0
        answers = []
        for verb in ("filter", "prioritize"):
            began = time.monotonic()
            try:
                status, body = await self._post(extender, verb, args)
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                slowest = max(slowest, time.monotonic() - began)
                return Scheduled(0, slowest, problem=f"{verb}: {type(error).__name__}: {error}")
            slowest = max(slowest, time.monotonic() - began)
            if status != 200:
                return Scheduled(status, slowest, problem=f"{verb}: {body[:200].decode(errors='replace')}")
            answers.append(json.loads(body))
            args = args | {"NodeNames": answers[0]["NodeNames"]}
            if not args["NodeNames"]:
                break
        filtered, scored = answers[0], answers[1] if len(answers) > 1 else []
        refused = (filtered.get("FailedNodes") or {}) | (filtered.get("FailedAndUnresolvableNodes") or {})
        scores = tuple((row["Host"], row["Score"]) for row in scored)
        problem = filtered.get("Error") or ""
        overran = any(OVERRAN in reason for reason in refused.values())
        return Scheduled(200, slowest, tuple(filtered["NodeNames"] or ()), tuple(refused), scores, problem, overran)

    async def _post(self, extender: str, verb: str, args: dict[str, Any]) -> tuple[int, bytes]:
        url = f"{self._cluster.processes[extender].url}/{verb}"
        headers = {"Content-Type": "application/json"}
        async with self._session.post(url, data=json.dumps(args), headers=headers) as answer:
            return answer.status, await answer.read()


async def run_client(cluster: Cluster, client: SchedulerClient, extender: str, seed: int) -> None:
    """Schedules pods with and without a bound in turn, until cancelled."""
    rng = Random(f"{seed} {extender}")
    for number in itertools.count():
        began = time.monotonic()
        bounded = bool(number % 2)
        candidates = rng.sample(CLUSTER_NODES, len(CLUSTER_NODES))
        args = scheduler_request.captured_args(candidates, {f"delay_{BOUND_NODE}": str(BOUND_MS)} if bounded else {})
        meta = args["Pod"]["metadata"]
        meta["name"], meta["uid"] = f"good-{extender}-{number}", f"good-{extender}-{number}"
        done = await client.schedule(extender, args)
        expected = WITHIN_BOUND if bounded else None
        cluster.log.append(Answered(began, extender, meta["name"], tuple(candidates), expected, *done))
        if done.status == 200 and number % EXPLAIN_EVERY == 0:
            await _explain(cluster, extender, f"{meta['namespace']}/{meta['name']}")
        await asyncio.sleep(max(0.0, began + 1 / PODS_A_SECOND - time.monotonic()))


async def _explain(cluster: Cluster, extender: str, pod: str) -> None:
    url = f"{cluster.processes[extender].api_url}/api/v1/pods/{pod}"
    status, body = await cluster.get(url, TIMEOUT_SECONDS)
    if status != 200:
        return
    detail = json.loads(body)
    nodes = detail["explanation"]["nodes"]
    delays = tuple(_used(node["node"], each) for node in nodes for each in node["distances"] if _is_measured(each))
    scored = {
        node["node"]: node["freshness"]
        for node in nodes
        if "pressure" in node["values"] and "pressure" not in node["unknown"]
    }
    ages = {node["node"]: node["age_seconds"] for node in nodes if node["node"] in scored}
    at = time.monotonic() - detail["seconds_ago"]
    cluster.log.append(Explained(at, extender, pod, delays, scored, ages))


def _is_measured(distance: dict[str, Any]) -> bool:
    return distance["source"] == "agents" and not distance["estimated"]


def _used(node: str, distance: dict[str, Any]) -> UsedDelay:
    reporter = distance["reporter"]
    peer = distance["reference"] if reporter == node else node
    return UsedDelay(node, reporter, peer, distance["rtt_ms"], distance["age_seconds"], bool(distance["doubt"]))


async def crash_pods(cluster: Cluster) -> None:
    """Restarts the container of one pod on each crashing node every few seconds, until cancelled."""
    for total in itertools.count(1):
        for node in CRASHING_NODES:
            await asyncio.to_thread(cluster.api.put, f"{PODS}/{CRASHING_TYPE}-{node}", _crasher(node, total))
            cluster.log.append(Crashed(time.monotonic(), node, total))
        await asyncio.sleep(CRASH_EVERY_SECONDS)


def _crasher(node: str, restarts: int) -> dict[str, Any]:
    status = {
        "name": "app",
        "restartCount": restarts,
        "ready": True,
        "state": {"running": {"startedAt": "2026-03-01T12:00:00Z"}},
        "lastState": {"terminated": {"exitCode": 1, "reason": "Error"}},
    }
    return {
        "metadata": {"uid": f"uid-{CRASHING_TYPE}-{node}", "labels": {"app": CRASHING_TYPE}},
        "spec": {"nodeName": node, "containers": [{"name": "app"}]},
        "status": {"phase": "Running", "containerStatuses": [status]},
    }


async def fill_cards(cluster: Cluster, client: SchedulerClient, extender: str, placed: deque[tuple[str, str]]) -> None:
    """Binds pods that ask for most of a card; where no node is kept, the oldest of `placed` goes. Until cancelled."""
    amounts = {I915: "1", CARD_MEMORY: f"{POD_GB}G"}
    container = {"name": "app", "resources": {"requests": amounts, "limits": amounts}}
    for number in itertools.count():
        name, args = f"card-{extender}-{number}", scheduler_request.captured_args(CARD_NODES, {})
        args["Pod"]["metadata"] |= {"name": name, "namespace": "default", "uid": name}
        args["Pod"]["spec"]["containers"] = [container]
        done = await client.schedule(extender, args)
        if bool(done.kept) and await asyncio.to_thread(_bind, cluster, name, container, done.kept[0]):
            placed.append((done.kept[0], name))
            pods = sum(node == done.kept[0] for node, _ in placed)
            cluster.log.append(CardGiven(time.monotonic(), extender, done.kept[0], pods))
        elif placed:
            _, oldest = placed.popleft()
            await asyncio.to_thread(cluster.api.delete, f"{PODS}/{oldest}")
        await asyncio.sleep(CARD_EVERY_SECONDS)


def _bind(cluster: Cluster, name: str, container: dict[str, Any], node: str) -> bool:
    """Whether it could: a silent API server binds nobody."""
    spec = {"nodeName": node, "containers": [container]}
    pod = {"metadata": {"uid": name}, "spec": spec, "status": {"phase": "Running"}}
    return cluster.api.call(lambda server: server.speaking.is_set() and bool(server.put(f"{PODS}/{name}", pod)))


def loops(cluster: Cluster, client: SchedulerClient, seed: int) -> dict[str, Any]:
    clients = {f"load {extender}": run_client(cluster, client, extender, seed) for extender in EXTENDERS}
    placed = deque[tuple[str, str]]()
    cards = {f"cards {extender}": fill_cards(cluster, client, extender, placed) for extender in EXTENDERS}
    return {**clients, **cards, "crashes": crash_pods(cluster)}
