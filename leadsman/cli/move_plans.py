"""Shows plans of moves as text, and reads and writes them in files and in the ConfigMap that hands them over."""

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from controller.keeper import DocumentObject
from leadsman.cli.flags import process_flags
from leadsman.cli.flags.options import CommandFailed, Options
from leadsman.cli.flags.values import file_to_write, namespace_name
from leadsman.cli.plan_inputs import planned_backups
from leadsman.kube.client import ApiClient
from leadsman.kube.errors import ApiError, Conflict
from leadsman.planning.backups.backup_plan import BackupSettings
from leadsman.published.documents import BadDocument, decode, encode
from leadsman.published.moves import MOVES, LeftOut, MovePlan, PlanProgress
from leadsman.runtime.text_table import align_columns

T = TypeVar("T")


def plan_output_options(add: Options) -> None:
    """Adds the flags of where a plan of moves goes to, and whether it keeps backups."""
    parser = add.parser
    parser.add_argument(
        "-o", "--output", help="write the plan for `leadsman plan apply`", type=file_to_write, metavar="FILE"
    )
    parser.add_argument("--json", action="store_true", help="print the plan as JSON")
    parser.add_argument(
        "--no-backups", action="store_true", help="pods need not keep a backup, and no room is reserved for backups"
    )


def backup_settings(args: argparse.Namespace) -> BackupSettings | None:
    """Returns how backups are kept by the flags of `plan_output_options` and of the input; None: they are not kept."""
    return None if args.no_backups else planned_backups(args)


def write_plan(plan: MovePlan, args: argparse.Namespace) -> None:
    """Prints the plan, and writes it to the file that was named. Raises DocumentTooLarge or OSError."""
    text = encode(plan)
    if args.output is not None:
        args.output.write_bytes(text + b"\n")
    sys.stdout.write(text.decode() + "\n" if args.json else plan_text(plan))
    if not args.json and plan.taken_at is None:
        print("it cannot be applied: its source does not say when it was taken; plan a live cluster", file=sys.stderr)


def plan_text(plan: MovePlan, progress: PlanProgress | None = None) -> str:
    """Writes the moves in their order, and what is left out. progress: of the moves."""
    rows = [("", "POD", "FROM", "TO", "GAIN", "COST", "REASON" if progress is None else "STATE")]
    for number, move in enumerate(plan.moves):
        said = move.reason
        if progress is not None:
            done = progress.moves[number]
            said = f"{done.outcome}: {done.note}" if done.note else done.outcome.value
        name = f"{move.namespace}/{move.name}"
        rows.append((str(number + 1), name, move.from_node, move.to_node, f"{move.gain:g}", f"{move.cost:g}", said))
    lines = align_columns(rows) if plan.moves else ["nothing is moved"]
    return "\n".join([*lines, *pods_text("NOT MOVED", plan.left_out), ""])


def pods_text(title: str, pods: Sequence[LeftOut]) -> list[str]:
    """Lists pods with a sentence about each, under a title; [] for none."""
    if not pods:
        return []
    rows = [(title, "NODE", "BECAUSE"), *((f"{each.namespace}/{each.name}", each.node, each.why) for each in pods)]
    return ["", *align_columns(rows)]


def read_plan(file: Path) -> MovePlan:
    """Reads a plan from a file. ValueError names the file and the field."""
    try:
        return decode(file.read_bytes(), MovePlan)
    except (BadDocument, OSError) as error:
        raise ValueError(f"{file}: {error}") from error


def handover_options(add: Options) -> None:
    """Adds the flags of where plans are handed over."""
    process_flags.operator_api_options(add)
    add.argument("namespace", "Leadsman's namespace", "leadsman", namespace_name)


def with_client(args: argparse.Namespace, do: Callable[[ApiClient], Awaitable[T]]) -> T:
    """Runs `do` with a client of the API server that the flags name. Raises CommandFailed when the server refuses."""

    async def run() -> T:
        async with ApiClient(process_flags.operator_api_access(args)) as client:
            return await do(client)

    try:
        return asyncio.run(run())
    except Conflict as error:
        raise CommandFailed(f"somebody else wrote the plan meanwhile; look again: {error}") from error
    except ApiError as error:
        raise CommandFailed(f"the API server: {error}") from error


async def read_progress(client: ApiClient, namespace: str) -> PlanProgress | None:
    """Returns how far the last plan is that the controller saw; None: it has seen none. Raises BadDocument or
    ApiError."""
    state = await DocumentObject(client, namespace, MOVES).read()
    return state.progress if state else None


def time_text(unix: float) -> str:
    """Writes a moment as 2026-11-22T09:00:00Z."""
    return datetime.fromtimestamp(unix, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
