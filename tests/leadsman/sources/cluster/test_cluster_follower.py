"""The Cluster from a fake API server on a real socket."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from leadsman.cluster.model import Cluster
from leadsman.cluster.resources import Resources
from leadsman.kube.access import ApiAccess
from leadsman.kube.client import ApiClient
from leadsman.sources.cluster.cluster_follower import LISTS, ClusterFollower
from tests.testbed.background import running
from tests.testbed.scripted_api_server import FakeApiServer
from tests.waiting import until

PODS = "/api/v1/namespaces/default/pods"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
CSI_NODES = "/apis/storage.k8s.io/v1/csinodes"


@asynccontextmanager
async def following(api: FakeApiServer) -> AsyncIterator[ClusterFollower]:
    async with ApiClient(ApiAccess(api.url), deadline_seconds=60.0) as client:
        follower = ClusterFollower(client)
        async with running(follower.run()):
            yield follower


@asynccontextmanager
async def loaded(api: FakeApiServer) -> AsyncIterator[ClusterFollower]:
    async with following(api) as follower:
        await until(lambda: follower.loaded and api.watches == len(LISTS))
        yield follower


def now(follower: ClusterFollower) -> Cluster:
    assert follower.current is not None
    return follower.current


def node(name, cpu="2", **spec):
    ready = [{"type": "Ready", "status": "True"}]
    allocatable = {"cpu": cpu, "memory": "1Gi", "pods": "10"}
    return {"metadata": {"name": name}, "spec": spec, "status": {"allocatable": allocatable, "conditions": ready}}


def pod(name, on="", cpu="100m", phase="Running"):
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": cpu}}}
    spec = {"containers": [container]} | ({"nodeName": on} if on else {})
    return {"metadata": {"name": name}, "spec": spec, "status": {"phase": phase}}


async def test_the_cluster_follows_nodes_and_pods(api: FakeApiServer) -> None:
    api.put("/api/v1/nodes/a", node("a"))
    api.put(f"{PODS}/p", pod("p", "a"))
    async with loaded(api) as follower:
        assert now(follower).free("a") == Resources(1900, 1 << 30, 9)
        api.put(f"{PODS}/q", pod("q"))
        await until(lambda: now(follower).unbound_pods)
        api.put(f"{PODS}/q", pod("q", "a"))
        await until(lambda: now(follower).free("a").pods == 8)
        api.delete(f"{PODS}/p")
        await until(lambda: now(follower).free("a").pods == 9)
        api.put(f"{PODS}/q", pod("q", "a", phase="Succeeded"))
        await until(lambda: not now(follower).pods)
        api.put("/api/v1/nodes/a", node("a", "4", unschedulable=True))
        await until(lambda: now(follower).nodes["a"].unschedulable)
        api.delete("/api/v1/nodes/a")
        await until(lambda: not now(follower).nodes)


async def test_what_a_driver_says_and_the_rest_of_the_objects(api: FakeApiServer) -> None:
    api.put("/api/v1/nodes/a", node("a"))
    async with loaded(api) as follower:
        driver = {"name": "csi.example.com", "allocatable": {"count": 3}}
        api.put(f"{CSI_NODES}/a", {"spec": {"drivers": [driver]}})
        await until(lambda: now(follower).nodes["a"].attach_limits == {"csi.example.com": 3})
        api.put("/api/v1/nodes/a", node("a", "4"))
        await until(lambda: now(follower).nodes["a"].allocatable.cpu_millis == 4000)
        assert now(follower).nodes["a"].attach_limits == {"csi.example.com": 3}
        api.delete(f"{CSI_NODES}/a")
        await until(lambda: not now(follower).nodes["a"].attach_limits)
        assert not follower._assembly._attach_limits, "a name that is gone takes no memory"
        api.put(f"{BUDGETS}/b", {"spec": {}, "status": {"disruptionsAllowed": 2}})
        api.put(f"{CLAIMS}/c", {"spec": {"volumeName": "v"}})
        await until(lambda: now(follower).budgets and now(follower).storage.claims)
        api.delete(f"{CLAIMS}/c")
        await until(lambda: not now(follower).storage.claims)
        assert now(follower).budgets["default", "b"].disruptions_allowed == 2


async def test_a_heartbeat_makes_no_new_cluster(api: FakeApiServer) -> None:
    api.put("/api/v1/nodes/a", node("a"))
    async with loaded(api) as follower:
        before = now(follower)
        api.put("/api/v1/nodes/a", node("a"))
        version = api.objects.revision
        await until(lambda: follower.reflectors["Node"]._newest == str(version))
        assert follower.current is before


async def test_there_is_no_cluster_until_every_part_was_listed(api: FakeApiServer) -> None:
    api.deny("poddisruptionbudgets")
    async with following(api) as follower:
        others = [reflector for kind, reflector in follower.reflectors.items() if kind != "PodDisruptionBudget"]
        await until(lambda: follower.problem and all(reflector.loaded.is_set() for reflector in others))
        assert follower.current is None
        assert "Forbidden" in follower.problem
        assert follower.age_seconds(time.monotonic()) == float("inf")
