"""A real kube-apiserver with what the controller's components grant, and nodes; a test is the kubelets and owners.

Beside it, which rights the controller used, by the API server's audit log, and which its components grant.
"""

import asyncio
import json
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from leadsman.kube import kubeconfig
from leadsman.kube.client import ApiClient
from leadsman.kube.events import EventWriter
from leadsman.runtime.token_bucket import TokenBucket
from tests.testbed.kube_apiserver import KubeApiServer, KubeApiServerMissing
from tests.testbed.kube_scheduler import KubeScheduler
from tests.waiting import blocked_until

COMPONENTS = Path(__file__).parents[2] / "daemonset/components"
ACCOUNT = "system:serviceaccount:leadsman:leadsman-controller"
NAMESPACES = "/api/v1/namespaces"
SHOP, PLACEHOLDERS = f"{NAMESPACES}/shop/pods", f"{NAMESPACES}/leadsman-placeholders/pods"
THREE_NODES = ("edge-1", "edge-2", "edge-3")

Right = tuple[str, str, str]
"""Verb, resource with its subresource, and namespace; "" for the cluster."""


@contextmanager
def real_cluster(
    binaries: Path,
    folder: Path,
    *granted: str,
    nodes: Sequence[str] = THREE_NODES,
    users: Sequence[str] = (),
    audit_log: Path | None = None,
    flags: Sequence[str] = (),
) -> Iterator[KubeApiServer]:
    """granted: files of the components, as "self-healing/backups": the controller has their rights and no other."""
    if shutil.which("kubectl") is None:
        pytest.skip("apt-get install kubernetes-client")
    audited = audit_flags(audit_log) if audit_log else ()
    accounts: dict[str, tuple[str, ...]] = dict.fromkeys((ACCOUNT, *users), ())
    with KubeApiServer(binaries, folder / "kubernetes", users=accounts, flags=(*flags, *audited)) as one:
        for namespace in ("leadsman", "shop", "leadsman-placeholders"):
            one.call("POST", NAMESPACES, {"metadata": {"name": namespace}})
        for namespace in ("shop", "leadsman-placeholders"):
            one.call("POST", f"{NAMESPACES}/{namespace}/serviceaccounts", {"metadata": {"name": "default"}})
        for file in granted:
            kubectl(one, "apply", "-f", str(COMPONENTS / f"{file}.yaml"))
        for name in nodes:
            add_node(one, name)
        # The API server makes this one itself, a moment after it is ready.
        blocked_until(lambda: has_namespace(one, "kube-node-lease"), "the namespace of Leases")
        yield one


def has_namespace(cluster: KubeApiServer, name: str) -> bool:
    return name in {each["metadata"]["name"] for each in cluster.call("GET", NAMESPACES)["items"]}


@contextmanager
def scheduled(binaries: Path, folder: Path, cluster: KubeApiServer, **flags: Any) -> Iterator[None]:
    """With a kube-scheduler; the test is skipped where there is none."""
    try:
        with KubeScheduler(binaries, folder / "scheduler", cluster, **flags):
            yield
    except KubeApiServerMissing as missing:
        pytest.skip(str(missing))


@asynccontextmanager
async def controller_of(cluster: KubeApiServer) -> AsyncIterator[tuple[ApiClient, EventWriter]]:
    """The controller's client with its own rights, and its Events, which are written when they are run."""
    async with ApiClient(kubeconfig.read_kubeconfig(cluster.kubeconfig(ACCOUNT))) as client:
        yield client, EventWriter(client, TokenBucket(1e6, 1000), "controller-1")


def kubectl(cluster: KubeApiServer, *arguments: str, given: str = "") -> str:
    command = ["kubectl", f"--kubeconfig={cluster.kubeconfig()}", *arguments]
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def add_node(cluster: KubeApiServer, name: str) -> str:
    """A ready node of 8 GiB. Its UID."""
    made = cluster.call("POST", "/api/v1/nodes", {"metadata": {"name": name, "labels": {"node": name}}})
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "posting"}
    status = {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "50"}, "conditions": [ready]}
    cluster.call("PATCH", f"/api/v1/nodes/{name}/status", {"status": status})
    return str(made["metadata"]["uid"])


def owned_pod(
    name: str, owner: str = "", memory: str = "1Gi", labels: dict[str, str] | None = None, **spec: Any
) -> Any:
    """A pod of a ReplicaSet."""
    owner = owner or name
    reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": f"rs-{owner}", "controller": True}
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "100m", "memory": memory}}}
    return {
        "metadata": {"name": name, "labels": labels or {}, "ownerReferences": [reference]},
        "spec": {
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 1,
            "containers": [container],
            **spec,
        },
    }


def only_on(*nodes: str) -> dict[str, Any]:
    """An affinity by which kube-scheduler takes one of these nodes."""
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [each]}]} for each in nodes]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


def end_deleted_pods(cluster: KubeApiServer) -> None:
    """As their kubelets do."""
    for pod in cluster.call("GET", "/api/v1/pods")["items"]:
        if "deletionTimestamp" in pod["metadata"]:
            path = f"{NAMESPACES}/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
            cluster.call("DELETE", path, {"gracePeriodSeconds": 0})


async def cancelled(*tasks: "asyncio.Task[None]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def audit_flags(audit_log: Path) -> tuple[str, str]:
    """Flags of kube-apiserver, with which each request of the controller's account is a line in the file."""
    policy = audit_log.with_name("audit.yaml")
    rules = [{"level": "Metadata", "users": [ACCOUNT], "omitStages": ["RequestReceived"]}, {"level": "None"}]
    policy.write_text(json.dumps({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules}))
    return f"--audit-log-path={audit_log}", f"--audit-policy-file={policy}"


def used_rights(audit_log: Path) -> set[Right]:
    """Of the requests that were allowed. Events are the component controller's."""
    events = [json.loads(line) for line in audit_log.read_text().splitlines()]
    assert not [each for each in events if each["responseStatus"]["code"] == 403], "a right is missing"
    references = [(each["verb"], each["objectRef"]) for each in events if "objectRef" in each]
    return {
        (verb, "/".join(filter(None, (about["resource"], about.get("subresource")))), about.get("namespace", ""))
        for verb, about in references
        if about["resource"] != "events"
    }


def granted_rights(*files: str) -> set[Right]:
    """By the roles in these files of the components, as "self-healing/backups"."""
    objects: list[dict[str, Any]] = []
    for name in files:
        objects += yaml.safe_load_all((COMPONENTS / f"{name}.yaml").read_text())
    return {
        (verb, resource, one["metadata"].get("namespace", ""))
        for one in objects
        for rule in one.get("rules", ())
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
