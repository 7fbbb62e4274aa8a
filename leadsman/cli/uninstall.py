"""`leadsman uninstall`: what Leadsman left in a cluster, listed, and with --delete removed."""

import argparse
import asyncio
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct

from leadsman.cli import output
from leadsman.cli.flags import process_flags
from leadsman.cli.flags.options import CommandFailed, Options
from leadsman.kube.client import ApiClient, PatchType
from leadsman.kube.errors import ApiError, Forbidden, NotFound, Unavailable
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
from leadsman.published.moves import MOVE_PLAN, MOVES
from leadsman.published.self_healing import BACKUPS, SELF_HEALING
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
    """Returns 0 when nothing is left, 1 when something is. Raises ValueError when the cluster cannot be read."""
    try:
        return asyncio.run(_uninstall(args))
    except ApiError as error:
        raise CommandFailed(f"the cluster cannot be read: {error}") from error


async def _uninstall(args: argparse.Namespace) -> int:
    async with ApiClient(process_flags.operator_api_access(args)) as client:
        with output.progress("looks for what is ours in the cluster"):
            unseen = dict[str, ApiError]()
            objects, nodes = await find_objects(client, unseen), list[NodeChange]()
            if args.keep is None:
                nodes = [change async for node in _listed(client, NODES) if (change := node_change(node))]
        for what, error in unseen.items():
            print(f"not looked at: {what}: {error}", file=sys.stderr)
        if args.keep is not None:
            kept = _named(args.keep)
            deployed = [each for each in objects if each.manager == KUSTOMIZE]
            objects = [each for each in deployed if (each.kind, each.namespace, each.name) not in kept]
        if not args.crd:
            objects = [each for each in objects if each.kind not in TASPOLICY_KINDS]
        rows = [("WHAT", "NAMESPACE", "NAME", "BECAUSE")]
        rows += [(each.kind, each.namespace, each.name, each.because) for each in objects]
        rows += [("Node", "", each.node, f"has {', '.join(each.parts)}") for each in nodes]
        if len(rows) == 1:
            print("nothing of Leadsman is in what was looked at" if unseen else "nothing of Leadsman is in the cluster")
            return int(bool(unseen))
        print("\n".join(align_columns(rows)))
        if not args.delete:
            print("\nnothing was changed; --delete deletes these objects and what these nodes have", file=sys.stderr)
            return 1
        stay = await _delete(client, sorted(objects, key=_deletion_rank), nodes)
        print("".join(stay), end="", file=sys.stderr)
        return int(bool(stay or unseen))


def _named(manifests: Path) -> set[tuple[str, str, str]]:
    """Returns (kind, namespace, name) of each object in the file. Raises ValueError when it is not one of manifests."""
    try:
        text = sys.stdin.read() if str(manifests) == "-" else manifests.read_text()
        objects = [each for each in yaml.safe_load_all(text) if each]
        found = {(o["kind"], o["metadata"].get("namespace", ""), o["metadata"]["name"]) for o in objects}
    except (OSError, yaml.YAMLError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"--keep {manifests}: {error}; want what `kubectl kustomize` prints") from error
    if not found:
        raise ValueError(f"--keep {manifests}: there is no object in it; want what `kubectl kustomize` prints")
    return found


PAGE_OBJECTS = "500"
NODES = "/api/v1/nodes"

PART_OF_LABEL, PART_OF = "app.kubernetes.io/part-of", "leadsman"
"""This label is on every object of the manifests, of the chart and of `leadsman certs`."""

MANAGER_LABEL, KUSTOMIZE = "app.kubernetes.io/managed-by", "kustomize"

SECRETS = ("ca", "etcd-ca", "etcd-tls", "etcd-trust", "extender-tls", "scheduler-tls")
WRITTEN_BY_PROCESSES = {
    ("Namespace", PLACEHOLDER_NAMESPACE),
    ("Lease", "leadsman-controller"),
    ("Lease", "leadsman-scheduler"),
    *(("ConfigMap", each.config_map) for each in (SELF_HEALING, BACKUPS, MOVES, MOVE_PLAN)),
    *(("Secret", f"leadsman-{name}") for name in SECRETS),
}
"""(kind, name) of what controllers, cert-manager and second schedulers write, without our label."""

TASPOLICY_KINDS = ("CustomResourceDefinition", "TASPolicy")
"""Others may use these too."""


class Leftover(Struct, frozen=True):
    """An object in the cluster that is Leadsman's, and why.

    because: by what it was recognised.
    path: of the API, to delete it.
    manager: the tool that deployed it, by its label; "": none says so.
    """

    kind: str
    namespace: str
    name: str
    because: str
    path: str
    manager: str


async def find_objects(client: ApiClient, unseen: dict[str, ApiError]) -> list[Leftover]:
    """Finds all objects that are ours. unseen: is given the kinds and groups that could not be listed. Raises
    ApiError."""
    # An object may be served by two groups, as Events are.
    found: dict[str, Leftover] = {}
    async for base, resource in _resources(client, unseen):
        plural, kind = resource["name"], resource["kind"]
        try:
            async for item in _listed(client, f"{base}/{plural}"):
                if because := why_ours(kind, item):
                    metadata = item["metadata"]
                    name, namespace = metadata["name"], metadata.get("namespace", "")
                    path = f"{base}/{f'namespaces/{namespace}/' if namespace else ''}{plural}/{name}"
                    manager = (metadata.get("labels") or {}).get(MANAGER_LABEL, "")
                    found.setdefault(metadata["uid"], Leftover(kind, namespace, name, because, path, manager))
        except NotFound:
            continue
        except (Forbidden, Unavailable) as error:
            unseen[f"{plural} of {base.removeprefix('/apis/').removeprefix('/api/')}"] = error
    return sorted(found.values(), key=lambda each: (each.kind, each.namespace, each.name))


async def _resources(client: ApiClient, unseen: dict[str, ApiError]) -> AsyncIterator[tuple[str, Mapping[str, Any]]]:
    """Yields (path of the version, resource) of all that can be listed and deleted, each group in its preferred
    version. The server of a group may be away, as that of metrics."""
    groups = await client.get("/apis", dict)
    bases = ["/api/v1", *(f"/apis/{group['preferredVersion']['groupVersion']}" for group in groups["groups"])]
    for base in bases:
        try:
            served = await client.get(base, dict)
        except NotFound:
            continue
        except (Forbidden, Unavailable) as error:
            unseen[base.removeprefix("/apis/")] = error
            continue
        for resource in served["resources"]:
            if "/" not in resource["name"] and {"list", "delete"} <= set(resource["verbs"]):
                yield base, resource


async def _listed(client: ApiClient, path: str) -> AsyncIterator[dict[str, Any]]:
    query = {"limit": PAGE_OBJECTS}
    while True:
        page = await client.get(path, dict, query)
        for item in page.get("items") or ():
            yield item
        after = page["metadata"].get("continue")
        if not after:
            return
        query = {"limit": PAGE_OBJECTS, "continue": after}


def why_ours(kind: str, item: Mapping[str, Any]) -> str:
    """Says why the object is Leadsman's; "": it is not, or goes with the one that controls it."""
    metadata = item["metadata"]
    labels = metadata.get("labels") or {}
    # Endpoints have the labels of their Service, which no reference names as their owner.
    if kind == "Endpoints" or any(owner.get("controller") for owner in metadata.get("ownerReferences") or ()):
        return ""
    if labels.get(PART_OF_LABEL) == PART_OF:
        return f"label {PART_OF_LABEL}={PART_OF}"
    if (kind, metadata["name"]) in WRITTEN_BY_PROCESSES:
        return "its name"
    if kind == "Pod" and metadata.get("namespace") == PLACEHOLDER_NAMESPACE and PLACEHOLDER_LABEL in labels:
        return f"label {PLACEHOLDER_LABEL}"
    if kind == "Event" and REPORTING_CONTROLLER in (item.get("reportingComponent"), item.get("reportingController")):
        return "reported by Leadsman's controller"
    return ""


def _deletion_rank(each: Leftover) -> tuple[int, str, str]:
    """Ranks kinds for deletion: what writes goes first, what holds others last."""
    writes = each.kind in ("DaemonSet", "Deployment", "StatefulSet", "Job", "CronJob")
    holds = each.kind in ("Namespace", "CustomResourceDefinition")
    return holds - writes, each.kind, each.name


class NodeChange(Struct, frozen=True):
    """Says what is taken off a node: each part as an operator reads it, the patch, and whether our condition is
    there."""

    node: str
    parts: Sequence[str]
    patch: Mapping[str, Any]
    condition: bool


def node_change(node: Mapping[str, Any]) -> NodeChange | None:
    """Returns what of Leadsman is on this Node object; None: nothing.

    Labels are ours by our domain, or where the annotation of the controller names them and the named policy could have
    written them.
    """
    metadata = node["metadata"]
    ours = {
        field: sorted(key for key in metadata.get(field) or {} if key.startswith(f"{DOMAIN}/"))
        for field in ("annotations", "labels")
    }
    ours["labels"] += sorted(_owned_labels(metadata) & (metadata.get("labels") or {}).keys())
    taints = node.get("spec", {}).get("taints") or []
    others = [taint for taint in taints if taint["key"] != UNREACHABLE_TAINT]
    conditions = node.get("status", {}).get("conditions") or ()
    condition = any(each["type"] == UNREACHABLE_CONDITION for each in conditions)
    parts = [f"{field.removesuffix('s')} {key}" for field, keys in ours.items() for key in keys]
    parts += [f"taint {UNREACHABLE_TAINT}"] * (others != taints) + [f"condition {UNREACHABLE_CONDITION}"] * condition
    patch: dict[str, Any] = {"metadata": {field: dict.fromkeys(keys) for field, keys in ours.items()}}
    if others != taints:
        patch["metadata"]["resourceVersion"] = metadata["resourceVersion"]
        patch["spec"] = {"taints": others}
    return NodeChange(metadata["name"], parts, patch, condition) if parts else None


async def _delete(client: ApiClient, objects: Sequence[Leftover], nodes: Sequence[NodeChange]) -> list[str]:
    """Deletes them in this order, and says in lines what stays, and why."""
    stay = list[str]()
    deletions = [(f"{each.kind} {each.name}", partial(client.delete, each.path)) for each in objects]
    changes = [(f"Node {each.node}", partial(_take_off, client, each)) for each in nodes]
    with output.progress("deletes what is ours") as say:
        for what, delete in [*deletions, *changes]:  # Nodes last: a controller that runs would put its marks back.
            say(f"deletes {what}")
            try:
                await delete()
            except NotFound:
                continue
            except ApiError as error:
                stay.append(f"{what} stays: {error}\n")
    return stay


async def _take_off(client: ApiClient, change: NodeChange) -> None:
    """Takes it off. Raises Conflict when the node's taints may be others by now; run it again. Raises ApiError."""
    path = f"{NODES}/{change.node}"
    await client.patch(path, change.patch)
    if change.condition:
        gone = {"$patch": "delete", "type": UNREACHABLE_CONDITION}
        await client.patch(f"{path}/status", {"status": {"conditions": [gone]}}, PatchType.STRATEGIC)


def _owned_labels(metadata: Mapping[str, Any]) -> set[str]:
    """A record that nobody can read names none; the annotation goes all the same."""
    annotations = metadata.get("annotations") or {}
    if OWNERSHIP_ANNOTATION not in annotations:
        return set()
    try:
        return {*parse_ownership(NodeView(name=metadata["name"], annotations=annotations))}
    except BadOwnership:
        return set()
