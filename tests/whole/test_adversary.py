"""One node of forty lies about what it measured, in a real etcd, and a real extender is asked where pods go."""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any
from urllib.request import Request, urlopen

import numpy as np
import pytest

from leadsman.cli.demo import scheduler_request
from leadsman.state import keys
from leadsman.state.etcd_http import EtcdAccess
from leadsman.state.etcd_store import EtcdStore
from leadsman.state.records import Heartbeat, Identity, Latency, PeerLatency, encode_record
from leadsman.state.store import Put
from leadsman.testbed.etcd import Etcd

if TYPE_CHECKING:
    from tests.leadsman_process import LeadsmanProcess
    from tests.whole.conftest import Start, Until

SIZE, PEERS = 40, 16
PUSH_SECONDS = 1.0
FIT_SECONDS = 300.0
"""A fit takes some seconds alone, and the next one waits ten times as long."""
TARGET, LIAR = "n-00", "n-01"
NEAR_MS, FAR_MS = 0.001, 60_000.0

Lie = Callable[[str, float], float]
"""Peer and what was measured → what is reported."""


class Cluster:
    """Hosts of PlanetLab, each measuring some others. The liar is far from the target, which does not probe it.

    truth_ms: node → node → round trip.
    """

    def __init__(self, lie: Lie, everybody: bool) -> None:
        matrix = np.loadtxt(Path(__file__).parents[1] / "data" / "rtt" / "planetlab_1.txt.gz")
        rng = np.random.default_rng(3)
        target, *others = rng.permutation(len(matrix))[:SIZE].tolist()
        others.sort(key=lambda host: float(matrix[target, host]))
        hosts = [target, others.pop(SIZE * 4 // 5), *others]
        names = [f"n-{number:02}" for number in range(SIZE)]
        self.truth_ms = {
            name: {other: float(matrix[one, two]) for other, two in zip(names, hosts, strict=True)}
            for name, one in zip(names, hosts, strict=True)
        }
        self.reports = {name: self._report(name, names, rng) for name in names}
        peers = [name for name in names if name != LIAR] if everybody else [*self.reports[LIAR], TARGET]
        self.reports[LIAR] = {peer: lie(peer, self.truth_ms[LIAR][peer]) for peer in peers}

    def _report(self, name: str, names: list[str], rng: np.random.Generator) -> dict[str, float]:
        unprobed = {name, LIAR if name == TARGET else ""}
        peers = [peer for peer in rng.permutation(names).tolist() if peer not in unprobed][:PEERS]
        return {peer: self.truth_ms[name][peer] for peer in peers}

    async def write(self, etcd_url: str, stopped: threading.Event) -> None:
        """As agents do: identity, what was measured and a heartbeat, again and again."""
        store = EtcdStore(EtcdAccess((etcd_url,)))
        sequence = 0
        while not stopped.is_set():
            sequence += 1
            for name, peers in self.reports.items():
                windows = {peer: PeerLatency(30, 30, p50_ms=ms, p95_ms=ms, min_ms=ms) for peer, ms in peers.items()}
                records = (
                    Identity(f"pod-{name}", 1, "10.0.0.1"),
                    Latency(windows),
                    Heartbeat(1, sequence, PUSH_SECONDS),
                )
                await store.write([Put(keys.record_key(name, type(each)), encode_record(each)) for each in records])
            await asyncio.to_thread(stopped.wait, PUSH_SECONDS)
        await store.close()


def near_everybody(_: str, measured_ms: float) -> float:
    return NEAR_MS


def far_from_everybody(_: str, measured_ms: float) -> float:
    return FAR_MS


def near_the_target(peer: str, measured_ms: float) -> float:
    return NEAR_MS if peer == TARGET else measured_ms


@pytest.fixture
def cluster(request: pytest.FixtureRequest, etcd: Etcd) -> Iterator[Cluster]:
    lie: Lie = request.param
    found, stopped = Cluster(lie, everybody=lie is not near_the_target), threading.Event()
    writer = threading.Thread(target=lambda: asyncio.run(found.write(etcd.client_url, stopped)))
    writer.start()
    yield found
    stopped.set()
    writer.join()


def ask(extender: "LeadsmanProcess", verb: str, bound_ms: float, nodes: list[str]) -> Any:
    body = json.dumps(scheduler_request.captured_args(nodes, {f"delay_{TARGET}": f"{bound_ms:.3f}"})).encode()
    with urlopen(Request(f"{extender.url}/{verb}", body, {"Content-Type": "application/json"}), timeout=5) as answer:
        return json.load(answer)


def kept(extender: "LeadsmanProcess", bound_ms: float, cluster: Cluster) -> set[str]:
    return set(ask(extender, "filter", bound_ms, list(cluster.truth_ms))["NodeNames"])


def scores(extender: "LeadsmanProcess", cluster: Cluster) -> dict[str, int]:
    """Under a bound that every node keeps."""
    everywhere = ask(extender, "filter", 9_999.0, list(cluster.truth_ms))["NodeNames"]
    rows = ask(extender, "prioritize", 9_999.0, everywhere)
    return {row["Host"]: row["Score"] for row in rows}


@pytest.fixture
def extender(cluster: Cluster, start: "Start", until: "Until") -> "LeadsmanProcess":
    """It knows all nodes, and has found the liar out."""
    found = start("extender")
    until(lambda: found.metric("leadsman_estimates_nodes") == SIZE, "estimates of all nodes", FIT_SECONDS)
    until(lambda: implausible(found), "the liar is found out", FIT_SECONDS)
    return found


def implausible(extender: "LeadsmanProcess") -> list[str]:
    """The nodes to which the liar reports what cannot be true."""
    found = extender.api(f"/nodes/{LIAR}")
    return list(found["implausible"]) if found else []


@pytest.mark.parametrize("cluster", [near_everybody, near_the_target], indirect=True)
def test_a_liar_is_neither_kept_for_a_tight_bound_nor_scored_above_the_honest_median(
    cluster: Cluster, extender: "LeadsmanProcess", until: "Until", etcd: Etcd
) -> None:
    truth_ms = cluster.truth_ms[TARGET]
    assert LIAR not in kept(extender, truth_ms[LIAR] / 2, cluster)
    pod = scheduler_request.captured_args([], {})["Pod"]["metadata"]
    page = extender.get(f"/api/v1/pods/{pod['namespace']}/{pod['name']}")[1]
    assert f"{LIAR} alone reports 0.001 ms and is not believed" in page
    found = scores(extender, cluster)
    assert found[LIAR] <= median(score for name, score in found.items() if name not in (LIAR, TARGET))
    assert TARGET in implausible(extender)
    assert extender.metric("leadsman_implausible_reports") >= 1
    until(lambda: is_requested_for(extender, etcd), "the target asked to measure the liar")


def is_requested_for(extender: "LeadsmanProcess", etcd: Etcd) -> bool:
    """Whether a pod that only the liar is offered to makes the extender ask the target for a measurement."""

    async def read() -> bool:
        store = EtcdStore(EtcdAccess((etcd.client_url,)))
        listing = await store.read_prefix(keys.probe_request_key(TARGET, LIAR))
        await store.close()
        return bool(listing.items)

    ask(extender, "filter", 9_999.0, [LIAR])
    return asyncio.run(read())


@pytest.mark.parametrize("cluster", [far_from_everybody], indirect=True)
def test_a_node_that_says_all_are_far_gains_nothing_and_costs_no_other_node_its_place(
    cluster: Cluster, extender: "LeadsmanProcess"
) -> None:
    contradicted = [each["text"] for each in extender.api("/overview")["problems"] if "contradict" in each["text"]]
    assert [text.partition(":")[0] for text in contradicted] == [LIAR]
    assert extender.metric("leadsman_contradicted_nodes") == 1
    truth_ms = cluster.truth_ms[TARGET]
    bound_ms = median(truth_ms.values())
    passing = kept(extender, bound_ms, cluster)
    assert LIAR not in passing
    assert {peer for peer, ms in cluster.reports[TARGET].items() if ms <= bound_ms} <= passing
    found = scores(extender, cluster)
    assert found.get(LIAR, 0) <= median(score for name, score in found.items() if name not in (LIAR, TARGET))
