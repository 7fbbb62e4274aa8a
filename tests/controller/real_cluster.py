"""A real kube-apiserver with what the controller's components grant, and nodes; a test is the kubelets and owners.

Beside it, which rights the controller used, by the API server's audit log, and which its components grant.
"""

import json
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import yaml

from leadsman.kube import kubeconfig
from leadsman.kube.client import ApiClient
from leadsman.kube.events import EventWriter
from tests.controller.followed import EDGES, event_writer
from tests.testbed.kube_apiserver import KubeApiServer
from tests.testbed.paper_cluster import CONTROLLER, MANIFESTS, add_node, install
from tests.waiting import blocked_until

NAMESPACES = "/api/v1/namespaces"
SHOP = f"{NAMESPACES}/shop/pods"
AMOUNTS = {"cpu": "4", "memory": "8Gi", "pods": "50"}

Right = tuple[str, str, str]
"""Verb, resource with its subresource, and namespace; "" for the cluster."""


@contextmanager
def real_cluster(
    binaries: Path,
    folder: Path,
    *granted: str,
    nodes: Sequence[str] = EDGES,
    users: Sequence[str] = (),
    flags: Sequence[str] = (),
) -> Iterator[KubeApiServer]:
    """granted: files of the components, as "self-healing/backups": the controller has their rights and no other.

    Each request of the controller's account is a line in the file audit.log of the folder.
    """
    rules = [{"level": "Metadata", "users": [CONTROLLER], "omitStages": ["RequestReceived"]}, {"level": "None"}]
    policy = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules}
    (folder / "audit.yaml").write_text(json.dumps(policy))
    audited = (f"--audit-log-path={folder}/audit.log", f"--audit-policy-file={folder}/audit.yaml")
    accounts: dict[str, tuple[str, ...]] = dict.fromkeys((CONTROLLER, *users), ())
    with KubeApiServer(binaries, folder / "kubernetes", users=accounts, flags=(*flags, *audited)) as one:
        for namespace in ("leadsman", "shop", "leadsman-placeholders"):
            one.call("POST", NAMESPACES, {"metadata": {"name": namespace}})
        install(one, *(f"components/{file}.yaml" for file in granted))
        for name in nodes:
            add_node(one, name, AMOUNTS)
        # The API server makes this one itself, a moment after it is ready.
        named = lambda: [each["metadata"]["name"] for each in one.call("GET", NAMESPACES)["items"]]  # noqa: E731
        blocked_until(lambda: "kube-node-lease" in named(), "the namespace of Leases")
        yield one


@asynccontextmanager
async def controller_of(cluster: KubeApiServer) -> AsyncIterator[tuple[ApiClient, EventWriter]]:
    """The controller's client with its own rights, and its Events, which are written when they are run."""
    async with ApiClient(kubeconfig.read_kubeconfig(cluster.kubeconfig(CONTROLLER))) as client:
        yield client, event_writer(client)


def owned_pod(
    name: str, owner: str = "", memory: str = "1Gi", labels: dict[str, str] | None = None, **spec: Any
) -> Any:
    """A pod of a ReplicaSet."""
    owner = owner or name
    reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": f"rs-{owner}", "controller": True}
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "100m", "memory": memory}}}
    return {
        "metadata": {"name": name, "labels": labels or {}, "ownerReferences": [reference]},
        "spec": {"terminationGracePeriodSeconds": 1, "containers": [container], **spec},
    }


def used_rights(folder: Path) -> set[Right]:
    """Of the requests that were allowed. Events are the component controller's."""
    events = [json.loads(line) for line in (folder / "audit.log").read_text().splitlines()]
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
        objects += yaml.safe_load_all((MANIFESTS / f"components/{name}.yaml").read_text())
    return {
        (verb, resource, one["metadata"].get("namespace", ""))
        for one in objects
        for rule in one.get("rules", ())
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
