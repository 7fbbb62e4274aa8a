"""Places from a real kube-apiserver, with the rights that daemonset/base gives the extender and no others."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from leadsman.decision.inputs import PlacedPod
from leadsman.kube import access
from leadsman.kube.errors import Forbidden
from leadsman.kube.objects import PartialObjectMetadata
from leadsman.kube.resources import JOBS, NODES, PODS, REPLICA_SETS
from leadsman.sources.wiring import ClusterSources
from tests.testbed.background import running
from tests.testbed.kube_apiserver import KubeApiServer
from tests.testbed.paper_cluster import EXTENDER, install
from tests.waiting import until

pytestmark = pytest.mark.slow

CONTAINERS = {"containers": [{"name": "main", "image": "x"}]}
Metadata = dict[str, Any]


@pytest.fixture
def api(kubernetes_binaries: Path, tmp_path: Path) -> Iterator[KubeApiServer]:
    with KubeApiServer(kubernetes_binaries, tmp_path / "kubernetes", users={EXTENDER: ()}) as one:
        yield one


def owned(name: str, kind: str, owner: Metadata, version: str = "apps/v1") -> Metadata:
    named = {"kind": kind, "name": owner["name"], "uid": owner["uid"], "apiVersion": version}
    return {"name": name, "ownerReferences": [named | {"controller": True}]}


def create(api: KubeApiServer, path: str, metadata: Metadata, **spec: Any) -> Metadata:
    made: Metadata = api.call("POST", path, {"metadata": metadata, "spec": spec})["metadata"]
    return made


def create_workloads(api: KubeApiServer) -> None:
    pods = PODS.path("default")
    create(api, NODES.path(), {"name": "n1", "labels": {"kubernetes.io/role": "cloud"}})
    selected = {"selector": {"matchLabels": {"app": "web"}}}
    template = {"template": {"metadata": {"labels": {"app": "web"}}, "spec": CONTAINERS}}
    of_web = owned("web-5d", "Deployment", {"name": "web", "uid": "d"})
    made = create(api, REPLICA_SETS.path("default"), of_web, replicas=0, **selected, **template)
    create(api, pods, owned("web-5d-x", "ReplicaSet", made), **CONTAINERS, nodeName="n1")
    once = {"spec": CONTAINERS | {"restartPolicy": "Never"}}
    of_night = owned("night-1", "CronJob", {"name": "night", "uid": "c"}, "batch/v1")
    made = create(api, JOBS.path("default"), of_night, template=once)
    create(api, pods, owned("night-1-x", "Job", made, "batch/v1"), **CONTAINERS, nodeName="n2")
    create(api, pods, {"name": "alone"}, **CONTAINERS, nodeName="n2")


async def test_places_and_roles_with_the_extender_s_rights(api: KubeApiServer) -> None:
    install(api, "base/namespace.yaml", "base/serviceaccounts.yaml")
    create_workloads(api)
    cluster = ClusterSources(access.access_from_url(api.url, api.ca_file, api.token_file(EXTENDER)))
    async with cluster.client, running(*(loop for _, loop in cluster.tasks())):
        await until(
            lambda: all(one.loaded.is_set() for one in (*cluster.workloads.reflectors, cluster.nodes.reflector))
        )
        places = cluster.workloads.current
        assert places.find("default", "web") == {"deployment": (PlacedPod("web-5d-x", "n1"),)}
        assert places.find("default", "night") == {"cronjob": (PlacedPod("night-1-x", "n2"),)}
        assert places.find("default", "alone") == {"pod": (PlacedPod("alone", "n2"),)}
        assert cluster.nodes.roles["n1"] == "cloud"
        api.call("DELETE", f"{PODS.path('default', 'alone')}?gracePeriodSeconds=0")
        await until(lambda: not cluster.workloads.current.find("default", "alone"))
        with pytest.raises(Forbidden):
            await cluster.client.get(PODS.path("default", "web-5d-x"), PartialObjectMetadata)
