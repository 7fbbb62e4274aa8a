"""`leadsman uninstall`: what Leadsman left in a cluster, listed, and with --delete removed."""

import argparse
import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Mapping
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct

from leadsman.cli.flags import process_flags
from leadsman.cli.flags.options import CommandFailed, Options
from leadsman.kube.client import ApiClient, PatchType
from leadsman.kube.errors import ApiError, Forbidden, NotFound
from leadsman.kube.names import (
    DOMAIN,
    OWNERSHIP_ANNOTATION,
    PLACEHOLDER_LABEL,
    PLACEHOLDER_NAMESPACE,
    REPORTING_CONTROLLER,
    UNREACHABLE_CONDITION,
)
from leadsman.planning.labels.label_plan import BadOwnership, NodeView, parse_ownership
from leadsman.planning.recovery_plan import UNREACHABLE_TAINT
from leadsman.published.backups import BACKUPS
from leadsman.published.move_plan import MOVE_PLAN
from leadsman.published.moves import MOVES
from leadsman.published.self_healing import SELF_HEALING
from leadsman.runtime.text_table import align_columns


def options(add: Options) -> None:
    process_flags.operator_api_options(add)
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
    async with ApiClient(process_flags.operator_api_access(args)) as client:
        objects = await find_objects(client)
        if args.keep is not None:
            objects, changes = _not_in(_named(args.keep), objects), []
        else:
            changes = await find_node_changes(client)
        if not args.crd:
            objects = [each for each in objects if each.kind not in TASPOLICY_KINDS]
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
        for each in sorted(objects, key=deletion_rank):
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


def _not_in(kept: set[tuple[str, str, str]], objects: "list[Leftover]") -> list["Leftover"]:
    """Returns what kustomize deployed and these manifests no longer have."""
    deployed = [each for each in objects if each.manager == KUSTOMIZE]
    return [each for each in deployed if (each.kind, each.namespace, each.name) not in kept]


async def _failed(what: str, deletion: Awaitable[None]) -> bool:
    """Tells whether it failed, which is said."""
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


async def find_objects(client: ApiClient) -> list["Leftover"]:
    """Returns all objects that are ours. A kind that may not be listed is left out. ApiError."""
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


async def find_node_changes(client: ApiClient) -> list["NodeChange"]:
    """Returns what is ours on each node that has something. ApiError."""
    return [change async for node in _listed(client, "/api/v1/nodes") if (change := node_change(node))]


async def apply(client: ApiClient, change: "NodeChange") -> None:
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


PART_OF_LABEL, PART_OF = "app.kubernetes.io/part-of", "leadsman"
"""On every object of the manifests, of the chart and of `leadsman certs`."""

MANAGER_LABEL, KUSTOMIZE = "app.kubernetes.io/managed-by", "kustomize"

WRITTEN_BY_PROCESSES = {
    ("Lease", "leadsman-controller"),
    ("Lease", "leadsman-scheduler"),
    *(("ConfigMap", each.config_map) for each in (SELF_HEALING, BACKUPS, MOVES, MOVE_PLAN)),
    ("Secret", "leadsman-ca"),
    ("Secret", "leadsman-etcd-ca"),
    ("Secret", "leadsman-etcd-tls"),
    ("Secret", "leadsman-etcd-trust"),
    ("Secret", "leadsman-extender-tls"),
    ("Secret", "leadsman-scheduler-tls"),
}
"""(kind, name) of what controllers, cert-manager and second schedulers write, without our label."""

TASPOLICY_KINDS = ("CustomResourceDefinition", "TASPolicy")
"""Others may use these too."""

_FIRST = ("DaemonSet", "Deployment", "StatefulSet", "Job", "CronJob")
_LAST = ("Namespace", "CustomResourceDefinition")


class Leftover(Struct, frozen=True):
    """An object that is ours.

    because: by what it was recognised.
    manager: the tool that deployed it, by its label; "": none says so.
    path: of the API, to delete it.
    """

    kind: str
    namespace: str
    name: str
    because: str
    path: str
    manager: str = ""


class NodeChange(Struct, frozen=True):
    """What is taken off a node.

    parts: each as an operator reads it.
    labels, annotations: keys.
    taints: those that stay; None: all do.
    condition: whether ours is there.
    resource_version: at which this was read.
    """

    node: str
    parts: tuple[str, ...]
    labels: tuple[str, ...] = ()
    annotations: tuple[str, ...] = ()
    taints: tuple[dict[str, Any], ...] | None = None
    condition: bool = False
    resource_version: str = ""


def why_ours(kind: str, item: Mapping[str, Any]) -> str:
    """By what the object is Leadsman's; "": it is not, or goes with the one that controls it."""
    metadata = item["metadata"]
    labels = metadata.get("labels") or {}
    if any(owner.get("controller") for owner in metadata.get("ownerReferences") or ()):
        return ""
    if labels.get(PART_OF_LABEL) == PART_OF:
        return f"label {PART_OF_LABEL}={PART_OF}"
    if (kind, metadata["name"]) in WRITTEN_BY_PROCESSES:
        return "its name"
    if kind == "Namespace" and metadata["name"] == PLACEHOLDER_NAMESPACE:
        return "its name"
    if kind == "Pod" and metadata.get("namespace") == PLACEHOLDER_NAMESPACE and PLACEHOLDER_LABEL in labels:
        return f"label {PLACEHOLDER_LABEL}"
    if kind == "Event" and REPORTING_CONTROLLER in (item.get("reportingComponent"), item.get("reportingController")):
        return "reported by Leadsman's controller"
    return ""


def node_change(node: Mapping[str, Any]) -> NodeChange | None:
    """Returns what of Leadsman is on this Node object; None: nothing.

    Labels are those that the annotation of the controller names and that the named policy could have written.
    """
    metadata = node["metadata"]
    present = metadata.get("annotations") or {}
    annotations = tuple(sorted(key for key in present if key.startswith(f"{DOMAIN}/")))
    labels = tuple(sorted(key for key in _owned_labels(metadata) if key in (metadata.get("labels") or {})))
    labels += tuple(sorted(key for key in metadata.get("labels") or {} if key.startswith(f"{DOMAIN}/")))
    all_taints = tuple(node.get("spec", {}).get("taints") or ())
    others = tuple(taint for taint in all_taints if taint["key"] != UNREACHABLE_TAINT)
    conditions = node.get("status", {}).get("conditions") or ()
    condition = any(each["type"] == UNREACHABLE_CONDITION for each in conditions)
    parts = [f"annotation {key}" for key in annotations] + [f"label {key}" for key in labels]
    parts += [f"taint {UNREACHABLE_TAINT}"] if others != all_taints else []
    parts += [f"condition {UNREACHABLE_CONDITION}"] if condition else []
    if not parts:
        return None
    return NodeChange(
        node=metadata["name"],
        parts=tuple(parts),
        labels=labels,
        annotations=annotations,
        taints=others if others != all_taints else None,
        condition=condition,
        resource_version=metadata.get("resourceVersion", ""),
    )


def _owned_labels(metadata: Mapping[str, Any]) -> tuple[str, ...]:
    """A record that nobody can read names none; the annotation goes all the same."""
    annotations = metadata.get("annotations") or {}
    if OWNERSHIP_ANNOTATION not in annotations:
        return ()
    try:
        return tuple(parse_ownership(NodeView(name=metadata["name"], annotations=annotations)))
    except BadOwnership:
        return ()


def deletion_rank(each: "Leftover") -> tuple[int, str, str]:
    """Returns what writes goes first, what holds others last."""
    rank = 0 if each.kind in _FIRST else 2 if each.kind in _LAST else 1
    return rank, each.kind, each.name
