"""`leadsman uninstall`: what Leadsman left in a cluster, listed, and with --delete removed."""

import argparse
import asyncio
import sys
from collections.abc import Awaitable
from pathlib import Path

import yaml

from leadsman.cli.command_failed import CommandFailed
from leadsman.cli.flags import api_server_flags
from leadsman.cli.flags.options import Options
from leadsman.cli.uninstalling import leftovers, remaining_objects
from leadsman.cli.uninstalling.leftovers import Leftover
from leadsman.kube.client import ApiClient
from leadsman.kube.errors import ApiError, NotFound
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
        objects = await remaining_objects.find_objects(client)
        if args.keep is not None:
            objects, changes = _not_in(_named(args.keep), objects), []
        else:
            changes = await remaining_objects.find_node_changes(client)
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
            failed |= await _failed(f"Node {change.node}", remaining_objects.apply(client, change))
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
