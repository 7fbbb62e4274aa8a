"""The live cluster as the source of a plan or a snapshot: its flags, and how it is read."""

import argparse
import asyncio
import contextlib

from leadsman.cli.command_failed import CommandFailed
from leadsman.cli.flags import api_server_flags, etcd_flags, telemetry_flags
from leadsman.cli.flags.options import Options
from leadsman.cli.flags.values import existing_file, namespace_name, optional_url
from leadsman.sources.cluster_snapshot import ClusterSnapshot
from leadsman.sources.delay.delay_sources import DelaySettings
from leadsman.sources.live_snapshot import CannotRead, take_snapshot
from leadsman.sources.telemetry.telemetry_sources import AGENTS_SOURCE, TelemetrySettings
from leadsman.sources.wiring import SourceSettings
from leadsman.state.etcd_store import EtcdStore


def options(add: Options) -> None:
    """Adds the flags of access to the live cluster; in its pods, the environment names it."""
    api_server_flags.operator_options(add)
    etcd_flags.options(add, default=None)
    followed = add.group("what else the live cluster's extender follows")
    followed.flag("goldpinger", "URL of Goldpinger, polled for /check_all", "", optional_url)
    followed.flag("goldpinger-names", 'JSON {"host IP, pod IP or pod": "node"}, for Goldpinger', None, existing_file)
    followed.flag(
        "self-healing-namespace",
        "namespace that the controller publishes in (default {default})",
        "leadsman",
        namespace_name,
    )
    telemetry_flags.options(followed)


def is_named(args: argparse.Namespace) -> bool:
    """Whether the flags or the environment name an API server from outside a cluster."""
    return bool(args.kubeconfig or args.kube_api or args.context)


def read(args: argparse.Namespace) -> ClusterSnapshot:
    """ValueError when the flags do not fit together; CommandFailed when the cluster cannot be read."""
    try:
        return asyncio.run(_read(args))
    except CannotRead as error:
        raise CommandFailed(str(error)) from error


async def _read(args: argparse.Namespace) -> ClusterSnapshot:
    settings = _settings(args)
    async with contextlib.AsyncExitStack() as stack:
        store = EtcdStore(etcd_flags.settings(args)) if args.etcd else None
        if store is not None:
            stack.push_async_callback(store.close)
        return await take_snapshot(store, settings)


def _settings(args: argparse.Namespace) -> SourceSettings:
    if (args.delay_matrix is None) is not (args.metadata is None):
        raise ValueError("--delay_matrix and --metadata belong together; give both or neither")
    api = api_server_flags.operator_settings(args)
    return SourceSettings(
        policy=args.policy,
        api=api,
        delays=DelaySettings(
            goldpinger_url=args.goldpinger,
            goldpinger_names_file=args.goldpinger_names,
            matrix=args.delay_matrix,
            metadata=args.metadata,
            estimates=False,
        ),
        telemetry=telemetry_flags.settings(args, api) or TelemetrySettings((AGENTS_SOURCE,), api),
        self_healing_namespace=args.self_healing_namespace,
    )
