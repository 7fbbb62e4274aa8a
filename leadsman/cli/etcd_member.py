"""`leadsman etcd-member`: find out how a member of etcd begins, then stand before it as its gateway and care for it."""

import argparse
import asyncio
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

from leadsman.cli.flags import process_flags
from leadsman.cli.flags.options import Options
from leadsman.cli.flags.values import existing_file, listen_address, namespace_name, split_host_port
from leadsman.etcd.clients import Clients
from leadsman.etcd.gateway import LIMITS, Gateway, create_app, create_session
from leadsman.etcd.member_care import MemberCare
from leadsman.etcd.member_start import EtcdFlags, MemberStart
from leadsman.kube.access import ApiAccess
from leadsman.kube.client import ApiClient
from leadsman.runtime.http_server import create_ops_app, good_unless, serve
from leadsman.runtime.process import run_tasks, run_until_stopped
from leadsman.runtime.scrape import create_registry
from leadsman.runtime.server_tls import ServerTls, TlsFiles, tls_metrics
from leadsman.runtime.watched_files import UnusableFile
from leadsman.state.etcd_http import EtcdAccess

REVIEW_WITHIN_SECONDS = 5.0


def options(add: Options) -> None:
    add = add.without_environment()
    add.argument("config", "the file to write, for etcd's --config-file", None, Path, metavar="FILE", required=True)
    process_flags.etcd_options(add, default=None)
    serving = add.group("gateway (without --tls-cert there is none, and the command ends when the file is written)")
    serving.argument("listen", "address for clients, by TLS", "0.0.0.0:9004", listen_address)
    serving.argument("ops-listen", "address of /metrics, /healthz and /readyz", "0.0.0.0:9005", listen_address)
    serving.argument("tls-cert", "our certificate, in PEM", None, existing_file)
    serving.argument("tls-key", "its key, in PEM", None, existing_file)
    serving.argument("namespace", "of the service accounts", "leadsman", namespace_name)
    process_flags.api_server_options(add)
    process_flags.log_options(add)
    add.parser.add_argument(
        "flags",
        nargs="+",
        help="after `--`: etcd's own flags, as --NAME=VALUE; --initial-cluster names all members, --etcd their client "
        "URLs in the same order; with a gateway the first of --listen-client-urls is where it finds etcd",
        metavar="ETCD-FLAG",
    )


def main(args: argparse.Namespace) -> int:
    """Runs the command. Raises ValueError for flags that cannot be used, or when the file cannot be written."""
    if not args.etcd:
        raise ValueError("--etcd is missing: the client URLs of all members, in the order of --initial-cluster")
    if bool(args.tls_cert) != bool(args.tls_key):
        raise ValueError("--tls-cert and --tls-key belong together; one is missing")
    access = EtcdAccess(args.etcd, str(args.etcd_ca or ""), args.etcd_token_file)
    flags = EtcdFlags.parse(args.flags)
    start = MemberStart(flags, access)
    if not args.tls_cert:
        asyncio.run(_write_config(start, args.config))
        return 0
    api = process_flags.api_access(args)
    return run_until_stopped(
        lambda stop: _serve(args, start, MemberCare(flags, access, args.config), api, stop),
        expected=(UnusableFile, ValueError),
    )


async def _write_config(start: MemberStart, config: Path) -> None:
    try:
        await start.write_config(config)
    except OSError as error:
        raise ValueError(f"--config {config}: {error}") from error


async def _serve(
    args: argparse.Namespace, start: MemberStart, care: MemberCare, api_access: ApiAccess, stop: asyncio.Event
) -> None:
    """The ops port opens once the file is written: the manifests start etcd after that."""
    writing = asyncio.create_task(_write_config(start, args.config))
    stopped = asyncio.create_task(stop.wait())
    await asyncio.wait({writing, stopped}, return_when=asyncio.FIRST_COMPLETED)
    if not writing.done():
        writing.cancel()
        return
    await writing
    tls = ServerTls(TlsFiles(args.tls_cert, args.tls_key))
    async with AsyncExitStack() as stack:
        stack.push_async_callback(care.close)
        session = await stack.enter_async_context(create_session())
        api = await stack.enter_async_context(ApiClient(api_access, deadline_seconds=REVIEW_WITHIN_SECONDS))
        gateway = Gateway(care.local_url, Clients(api, args.namespace), session)
        ops = create_ops_app(
            create_registry(gateway.families, care.families, partial(tls_metrics, tls)),
            lambda: good_unless(""),
            lambda: good_unless(care.problem),
        )
        await stack.enter_async_context(serve(create_app(gateway), *split_host_port(args.listen), LIMITS, tls=tls))
        await stack.enter_async_context(serve(ops, *split_host_port(args.ops_listen)))
        await run_tasks({"care": care.run(), "certificates": tls.follow()}, stop)
