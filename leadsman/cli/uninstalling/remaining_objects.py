"""Finds what is Leadsman's in a cluster, in every kind of object that the API server lists, and takes it off nodes."""

from collections.abc import AsyncIterator, Mapping
from typing import Any

from leadsman.cli.uninstalling.leftovers import MANAGER_LABEL, Leftover, NodeChange, node_change, why_ours
from leadsman.kube.client import ApiClient, PatchType
from leadsman.kube.errors import Forbidden, NotFound
from leadsman.kube.names import UNREACHABLE_CONDITION

PAGE_OBJECTS = "500"

_Object = dict[str, Any]


async def find_objects(client: ApiClient) -> list[Leftover]:
    """All objects that are ours. A kind that may not be listed is left out. ApiError."""
    # An object may be served by two groups, as Events are.
    found: dict[str, Leftover] = {}
    async for base, resource in _resources(client):
        try:
            async for item in _listed(client, f"{base}/{resource['name']}"):
                metadata = item["metadata"]
                namespace = metadata.get("namespace", "")
                because = why_ours(resource["kind"], item)
                if because:
                    inside = f"namespaces/{namespace}/" if namespace else ""
                    path = f"{base}/{inside}{resource['name']}/{metadata['name']}"
                    manager = (metadata.get("labels") or {}).get(MANAGER_LABEL, "")
                    kind, name = resource["kind"], metadata["name"]
                    found.setdefault(metadata["uid"], Leftover(kind, namespace, name, because, path, manager))
        except (Forbidden, NotFound):
            continue
    return sorted(found.values(), key=lambda each: (each.kind, each.namespace, each.name))


async def find_node_changes(client: ApiClient) -> list[NodeChange]:
    """What is ours on each node that has something. ApiError."""
    return [change async for node in _listed(client, "/api/v1/nodes") if (change := node_change(node))]


async def apply(client: ApiClient, change: NodeChange) -> None:
    """Takes it off the node. Conflict when the node's taints may be others by now: run it again. ApiError."""
    path = f"/api/v1/nodes/{change.node}"
    if change.condition:
        gone = {"$patch": "delete", "type": UNREACHABLE_CONDITION}
        await client.patch(f"{path}/status", {"status": {"conditions": [gone]}}, PatchType.STRATEGIC)
    metadata: dict[str, Any] = {
        "labels": dict.fromkeys(change.labels),
        "annotations": dict.fromkeys(change.annotations),
    }
    if change.taints is None:
        await client.patch(path, {"metadata": metadata})
    else:
        if not change.condition:
            metadata["resourceVersion"] = change.resource_version
        await client.patch(path, {"metadata": metadata, "spec": {"taints": list(change.taints)}})


async def _resources(client: ApiClient) -> AsyncIterator[tuple[str, Mapping[str, Any]]]:
    """(path of the version, resource) of all that can be listed and deleted, each group in its preferred version."""
    groups = await client.get("/apis", dict)
    bases = ["/api/v1", *(f"/apis/{group['preferredVersion']['groupVersion']}" for group in groups["groups"])]
    for base in bases:
        try:
            served = await client.get(base, dict)
        except NotFound:
            continue
        for resource in served["resources"]:
            if "/" not in resource["name"] and {"list", "delete"} <= set(resource["verbs"]):
                yield base, resource


async def _listed(client: ApiClient, path: str) -> AsyncIterator[_Object]:
    query = {"limit": PAGE_OBJECTS}
    while True:
        page = await client.get(path, dict, query)
        for item in page.get("items") or ():
            yield item
        after = page["metadata"].get("continue")
        if not after:
            return
        query = {"limit": PAGE_OBJECTS, "continue": after}
