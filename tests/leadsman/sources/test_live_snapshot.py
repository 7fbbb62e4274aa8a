"""A snapshot of a live cluster: a real etcd, and a scripted API server or, where one is named, a real one."""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from msgspec.structs import replace

from leadsman.decision.decide import filter_nodes, score_nodes
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import PodInfo
from leadsman.kube.access import ApiAccess
from leadsman.sources import live_snapshot
from leadsman.sources.cluster_snapshot import read_snapshot, snapshot_chunks
from leadsman.sources.delay.fitted_estimates import EstimatesOnDemand
from leadsman.sources.live_snapshot import NO_ETCD, STATE, CannotRead, take_snapshot
from leadsman.sources.telemetry.telemetry_sources import TelemetrySettings
from leadsman.sources.wiring import FollowedSources, SourceSettings
from leadsman.state import keys
from leadsman.state.etcd_http import EtcdAccess
from leadsman.state.etcd_store import EtcdStore
from leadsman.state.records import Heartbeat, Identity, Latency, PeerLatency, Reward, encode_record
from leadsman.state.report_timing import LONGEST_INTERVAL_SECONDS
from leadsman.state.snapshot import Freshness
from leadsman.state.store import Put
from leadsman.testbed.etcd import Etcd
from tests.leadsman.sources.telemetry.test_tas_policies import spec
from tests.testbed.background import running
from tests.testbed.scripted_api_server import FakeApiServer
from tests.waiting import until

NODES = ("n1", "n2", "n3", "n4")
RTT_MS = {frozenset(pair): 4.0 * number for number, pair in enumerate(itertools.combinations(NODES, 2), 1)}
POD = PodInfo("default", "new", "uid-new", {"delay_n1": "9", "app": "web"}, workload="deployment/web")


def pod(name: str, on: str) -> dict[str, Any]:
    container: dict[str, Any] = {
        "name": "main",
        "image": "secret/image",
        "env": [{"name": "TOKEN", "value": "hunter2"}],
    }
    container |= {"args": ["--password=hunter2"], "resources": {"requests": {"memory": "1Gi"}}}
    meta: dict[str, Any] = {"name": name, "labels": {"app": "web"}, "annotations": {"foreign.io/note": "hunter2"}}
    return {"metadata": meta, "spec": {"nodeName": on, "containers": [container]}}


@pytest.fixture
async def store(etcd: Etcd) -> AsyncIterator[EtcdStore]:
    """With the records of four agents, each of which reports five times a second, and is stale after minutes: a machine
    that stalls for a while makes none stale between two looks."""
    one = EtcdStore(EtcdAccess((etcd.client_url,), call_timeout_seconds=30.0), silence_seconds=60.0)
    for name in NODES:
        others = [to for to in NODES if to != name and {name, to} != {"n2", "n3"}]
        rtts_ms = {to: RTT_MS[frozenset((name, to))] for to in others}
        windows = {to: PeerLatency(10, 10, ms, ms, ms, 0.0, 1.0) for to, ms in rtts_ms.items()}
        records = (Identity(f"agent-{name}", 1, "10.0.0.1", "z", "r"), Latency(windows))
        await one.write([Put(keys.record_key(name, type(each)), encode_record(each)) for each in records])
    await one.write([Put(keys.reward_key("n2", "web"), encode_record(Reward(1.0, healthy=1.0, failed=8.0)))])
    async with running(report(one)):
        yield one
    await one.close()


async def report(store: EtcdStore) -> None:
    for seq in itertools.count():
        beats = [
            Put(keys.record_key(name, Heartbeat), encode_record(Heartbeat(1, seq, LONGEST_INTERVAL_SECONDS)))
            for name in NODES
        ]
        await store.write(beats)
        await asyncio.sleep(0.2)


@pytest.fixture
async def api() -> AsyncIterator[FakeApiServer]:
    async with FakeApiServer() as one:
        for name in NODES:
            labels = {"kubernetes.io/hostname": name, "kubernetes.io/role": "cloud" if name == "n4" else "edge"}
            status = {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "20"}}
            one.put(f"/api/v1/nodes/{name}", {"metadata": {"name": name, "labels": labels}, "status": status})
        one.put("/api/v1/namespaces/default", {"metadata": {"name": "default", "labels": {"team": "a"}}})
        for name, on in (("web-1", "n1"), ("web-2", "n2"), ("web-3", "")):
            one.put(f"/api/v1/namespaces/default/pods/{name}", pod(name, on))
        one.put("/apis/telemetry.intel.com/v1alpha1/namespaces/default/taspolicies/power", spec(metric="cpu_w"))
        yield one


def settings(access: ApiAccess) -> SourceSettings:
    telemetry = TelemetrySettings(("agents",), access)
    return SourceSettings(api=access, telemetry=telemetry, self_healing_namespace="leadsman")


def written_and_read(snapshot: Any) -> Any:
    return read_snapshot(b"".join(snapshot_chunks(snapshot)))


def decision(inputs: DecisionInputs) -> tuple[object, ...]:
    judged = filter_nodes(POD, NODES, inputs)
    return (
        judged.kept,
        {name: each.reason for name, each in judged.refused.items()},
        score_nodes(POD, judged.kept, inputs),
    )


async def test_a_decision_on_the_file_is_the_one_that_a_live_extender_makes(
    api: FakeApiServer, store: EtcdStore
) -> None:
    asked = settings(ApiAccess(api.url))
    read = written_and_read(await take_snapshot(store, asked)).inputs
    followed = FollowedSources(store, asked)
    async with followed, running(*(loop for _, loop in followed.tasks())):
        fresh = Freshness.FRESH
        await until(lambda: len(followed.state.current.nodes) == 4)
        await until(lambda: all(each.loaded.is_set() for each in followed.listed_sources.values()))
        await until(
            lambda: {each.freshness(time.monotonic()) for each in followed.state.current.nodes.values()} == {fresh}
        )
        await followed.delays.estimator.run_once()
        live = followed.input_sources.current_inputs()
    assert live.estimates is not None
    # Rewards fade in steps of seconds, and one may end between the two: at 0 each is as old as when it was first seen.
    read, live = replace(read, estimates=EstimatesOnDemand(read), now=0.0), replace(live, now=0.0)
    assert decision(read) == decision(live)
    for reference in NODES:
        assert read.estimates.row(reference) == live.estimates.row(reference)
    assert read.workloads.by_name == live.workloads.by_name
    assert read.node_roles == live.node_roles
    assert read.telemetry.policies == live.telemetry.policies


async def test_what_no_decision_reads_is_not_written(api: FakeApiServer, store: EtcdStore) -> None:
    data = b"".join(snapshot_chunks(await take_snapshot(store, settings(ApiAccess(api.url)))))
    assert b"web-1" in data
    for absent in (b"hunter2", b"TOKEN", b"secret/image", b"foreign.io"):
        assert absent not in data


async def test_without_etcd_the_snapshot_says_that_it_has_no_state(api: FakeApiServer) -> None:
    read = written_and_read(await take_snapshot(None, settings(ApiAccess(api.url))))
    assert read.missing == {STATE: NO_ETCD}
    assert len(read.cluster.nodes) == 4
    assert not read.inputs.snapshot.nodes


async def test_an_optional_source_that_fails_is_named_in_the_snapshot(api: FakeApiServer, store: EtcdStore) -> None:
    api.deny("taspolicies")
    read = written_and_read(await take_snapshot(store, settings(ApiAccess(api.url))))
    assert read.missing.keys() == {"taspolicies"}
    assert "Forbidden" in read.missing["taspolicies"]
    assert not read.inputs.telemetry.policies.loaded


async def test_a_part_of_the_cluster_that_fails_is_an_error(
    api: FakeApiServer, store: EtcdStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_snapshot, "FAILING_SECONDS", 0.5)
    api.deny("poddisruptionbudgets")
    with pytest.raises(CannotRead, match=r"the cluster's poddisruptionbudgets could not be read: .*Forbidden"):
        await take_snapshot(store, settings(ApiAccess(api.url)))
