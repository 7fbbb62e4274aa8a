"""`leadsman uninstall`: what Leadsman left in a cluster, listed, and with --delete removed."""

import argparse
import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Mapping
from pathlib import Path
from typing import Any

import yaml

from leadsman.cli import leftovers
from leadsman.cli.command_failed import CommandFailed
from leadsman.cli.flags import api_server_flags
from leadsman.cli.flags.options import Options
from leadsman.cli.leftovers import MANAGER_LABEL, Leftover, NodeChange, node_change, why_ours
from leadsman.kube.client import ApiClient, PatchType
from leadsman.kube.errors import ApiError, Forbidden, NotFound
from leadsman.kube.names import UNREACHABLE_CONDITION
from leadsman.runtime.text_table import align_columns


def options(add: Options) -> None:
    api_server_flags.operator_options(add)
    parser = add.parser
    parser.add_argument("--delete", action="store_true", help="delete what is listed (default: only list it)")
    parser.add_argument(
        "--keep",
        type=Path,
        metavar="FILE",
        help="only what kustomize deployed and this file of manifests, `-` for standard input, no longer has",
    )
    parser.add_argument(
        "--crd",
        action="store_true",
        help="the CustomResourceDefinition of TASPolicies too, and with it every TASPolicy",
    )


def main(args: argparse.Namespace) -> int:
    """0: nothing is left. 1: something is, or could not be deleted. ValueError when the cluster cannot be read."""
    try:
        return asyncio.run(_uninstall(args))
    except ApiError as error:
        raise CommandFailed(f"the cluster cannot be read: {error}") from error


async def _uninstall(args: argparse.Namespace) -> int:
    async with ApiClient(api_server_flags.operator_settings(args)) as client:
        objects = await find_objects(client)
        if args.keep is not None:
            objects, changes = _not_in(_named(args.keep), objects), []
        else:
            changes = await find_node_changes(client)
        if not args.crd:
            objects = [each for each in objects if each.kind not in leftovers.TASPOLICY_KINDS]
        rows = [("WHAT", "NAMESPACE", "NAME", "BECAUSE")]
        rows += [(each.kind, each.namespace, each.name, each.because) for each in objects]
        rows += [("Node", "", each.node, f"has {', '.join(each.parts)}") for each in changes]
        if len(rows) == 1:
            print("nothing of Leadsman is in the cluster")
            return 0
        print("\n".join(align_columns(rows)))
        if not args.delete:
            print("\nnothing was changed; --delete deletes these objects and what these nodes have", file=sys.stderr)
            return 1
        failed = False
        for change in changes:
            failed |= await _failed(f"Node {change.node}", apply(client, change))
        for each in sorted(objects, key=leftovers.deletion_rank):
            failed |= await _failed(f"{each.kind} {each.name}", client.delete(each.path))
        return int(failed)


def _named(manifests: Path) -> set[tuple[str, str, str]]:
    """(kind, namespace, name) of each object in the file. ValueError when it is not one of manifests."""
    try:
        text = sys.stdin.read() if str(manifests) == "-" else manifests.read_text()
        objects = [each for each in yaml.safe_load_all(text) if each]
        found = {(o["kind"], o["metadata"].get("namespace", ""), o["metadata"]["name"]) for o in objects}
    except (OSError, yaml.YAMLError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"--keep {manifests}: {error}; want what `kubectl kustomize` prints") from error
    if not found:
        raise ValueError(f"--keep {manifests}: there is no object in it; want what `kubectl kustomize` prints")
    return found


def _not_in(kept: set[tuple[str, str, str]], objects: list[Leftover]) -> list[Leftover]:
    """What kustomize deployed and these manifests no longer have."""
    deployed = [each for each in objects if each.manager == leftovers.KUSTOMIZE]
    return [each for each in deployed if (each.kind, each.namespace, each.name) not in kept]


async def _failed(what: str, deletion: Awaitable[None]) -> bool:
    """Whether it failed, which is said."""
    try:
        await deletion
    except NotFound:
        return False
    except ApiError as error:
        print(f"{what} stays: {error}", file=sys.stderr)
        return True
    return False


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
