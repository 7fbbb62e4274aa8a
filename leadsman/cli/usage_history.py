"""The flags of a usage history, and the history that they name."""

import argparse
import asyncio
import time

from leadsman.cli.command_failed import CommandFailed
from leadsman.cli.flags.options import Options
from leadsman.cli.flags.values import existing_file, optional_url, positive_int, positive_number
from leadsman.kube.access import access_from_url
from leadsman.kube.client import ApiClient
from leadsman.kube.errors import ApiError
from leadsman.planning.forecast.model import UsageHistory
from leadsman.sources.telemetry.usage_history import DEFAULT_QUERIES, BadHistory, parse_history, query_history


def history_options(add: Options) -> None:
    """Adds the flags. `read_history` reads them."""
    usage = add.group("what pods used")
    usage.argument("history", "CSV with time,workload,cpu,memory, or JSON with the same fields", None, existing_file)
    usage.argument("usage-prometheus", "in place of the file: Prometheus", "", optional_url)
    usage.argument("usage-days", "how many days to ask Prometheus for (default {default})", 8, positive_int)
    usage.argument(
        "usage-step", "seconds between two samples of Prometheus (default {default})", 300.0, positive_number
    )
    for resource, unit in (("cpu", "cores"), ("memory", "bytes")):
        usage.argument(
            f"{resource}-query",
            f"PromQL of {unit}, a series a pod, labelled namespace, workload, workload_type"
            " (default: by the rules of kube-prometheus)",
            DEFAULT_QUERIES[resource],
            metavar="PROMQL",
        )


def read_history(args: argparse.Namespace) -> UsageHistory | None:
    """What the flags name; None: nothing. ValueError."""
    if args.history is not None and args.usage_prometheus:
        raise ValueError("--history and --usage-prometheus exclude each other; leave one out")
    if args.history is not None:
        try:
            return parse_history(args.history.read_text(encoding="utf-8"))
        except (BadHistory, OSError, UnicodeDecodeError) as error:
            raise ValueError(f"{args.history}: {error}") from error
    if args.usage_prometheus:
        try:
            return asyncio.run(_query(args))
        except ApiError as error:
            raise CommandFailed(
                f"--usage-prometheus {args.usage_prometheus}: {type(error).__name__}: {error}"
            ) from error
    return None


async def _query(args: argparse.Namespace) -> UsageHistory:
    queries = {"cpu": args.cpu_query, "memory": args.memory_query}
    async with ApiClient(access_from_url(args.usage_prometheus, None, None)) as client:
        return await query_history(client, queries, time.time(), args.usage_days, args.usage_step)
