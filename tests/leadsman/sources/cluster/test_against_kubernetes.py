"""Places from a real kube-apiserver, with the rights that daemonset/base gives the extender and no others."""

import asyncio
from pathlib import Path

import pytest
import yaml

from leadsman.decision.inputs import PlacedPod
from leadsman.kube import access
from leadsman.kube.client import ApiClient
from leadsman.kube.errors import Forbidden
from leadsman.kube.objects import PartialObjectMetadata
from leadsman.kube.resources import JOBS, NODES, PODS, REPLICA_SETS, Resource
from leadsman.sources.wiring import ClusterSources
from tests.testbed.kube_apiserver import KubeApiServer
from tests.waiting import until

pytestmark = pytest.mark.slow

ACCOUNTS = Path(__file__).parents[4] / "daemonset" / "base" / "serviceaccounts.yaml"
USER = "system:serviceaccount:leadsman:leadsman-extender"
RBAC = {
    "ClusterRole": Resource("rbac.authorization.k8s.io/v1", "clusterroles"),
    "ClusterRoleBinding": Resource("rbac.authorization.k8s.io/v1", "clusterrolebindings"),
}
CONTAINERS = {"containers": [{"name": "main", "image": "x"}]}
TEMPLATE = {"metadata": {"labels": {"app": "web"}}, "spec": CONTAINERS}


@pytest.fixture(scope="module")
def api(kubernetes_binaries: Path, tmp_path_factory: pytest.TempPathFactory):
    with KubeApiServer(kubernetes_binaries, tmp_path_factory.mktemp("cluster") / "kubernetes", users={USER: ()}) as one:
        yield one


@pytest.fixture
async def admin(api):
    async with ApiClient(access.access_from_url(api.url, api.ca_file, api.token_file())) as one:
        yield one


def owner(kind, made, api="apps/v1"):
    named = {"kind": kind, "name": made.metadata.name, "uid": made.metadata.uid}
    return [named | {"apiVersion": api, "controller": True}]


async def pod(admin, name, node, owners=()):
    meta = {"name": name, "ownerReferences": list(owners)}
    await admin.create(PODS.path("default"), {"metadata": meta, "spec": CONTAINERS | {"nodeName": node}})


async def test_places_and_roles_with_the_extender_s_rights(api, admin) -> None:
    rights = [one for one in yaml.safe_load_all(ACCOUNTS.read_text()) if one["kind"] in RBAC]
    for one in rights:
        await admin.create(RBAC[one["kind"]].path(), one)
    await workloads(admin)
    cluster = ClusterSources(access.access_from_url(api.url, api.ca_file, api.token_file(USER)))
    async with cluster.client:
        tasks = [asyncio.create_task(loop) for _, loop in cluster.tasks()]
        try:
            await until(
                lambda: all(one.loaded.is_set() for one in (*cluster.workloads.reflectors, cluster.nodes.reflector))
            )
            places = cluster.workloads.current
            assert places.find("default", "web") == {"deployment": (PlacedPod("web-5d-x", "n1"),)}
            assert places.find("default", "night") == {"cronjob": (PlacedPod("night-1-x", "n2"),)}
            assert places.find("default", "alone") == {"pod": (PlacedPod("alone", "n2"),)}
            assert cluster.nodes.roles["n1"] == "cloud"
            await admin.delete(f"{PODS.path('default', 'alone')}?gracePeriodSeconds=0")
            await until(lambda: not cluster.workloads.current.find("default", "alone"))
            with pytest.raises(Forbidden):
                await cluster.client.get(PODS.path("default", "web-5d-x"), PartialObjectMetadata)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def workloads(admin):
    await admin.create(NODES.path(), {"metadata": {"name": "n1", "labels": {"kubernetes.io/role": "cloud"}}})
    owned = [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "d", "controller": True}]
    spec = {"replicas": 0, "selector": {"matchLabels": {"app": "web"}}, "template": TEMPLATE}
    made = await admin.create(
        REPLICA_SETS.path("default"), {"metadata": {"name": "web-5d", "ownerReferences": owned}, "spec": spec}
    )
    await pod(admin, "web-5d-x", "n1", owner("ReplicaSet", made))
    owned = [{"apiVersion": "batch/v1", "kind": "CronJob", "name": "night", "uid": "c", "controller": True}]
    once = {"template": {"spec": CONTAINERS | {"restartPolicy": "Never"}}}
    made = await admin.create(
        JOBS.path("default"), {"metadata": {"name": "night-1", "ownerReferences": owned}, "spec": once}
    )
    await pod(admin, "night-1-x", "n2", owner("Job", made, "batch/v1"))
    await pod(admin, "alone", "n2")
