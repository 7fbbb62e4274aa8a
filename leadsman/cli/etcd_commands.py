"""What runs beside etcd in pods: `leadsman etcd-member`, `etcd-issuer` and `etcd-load`."""

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from leadsman.cli.flags import process_flags
from leadsman.cli.flags.options import Options
from leadsman.cli.flags.values import existing_file, listen_address, namespace_name, split_host_port, url_list
from leadsman.etcd.access_control import ROOT
from leadsman.etcd.issuer import IssuerSettings, run
from leadsman.etcd.member_start import EtcdFlags, MemberStart
from leadsman.etcd.saved_records import lasting_records, write_absent
from leadsman.runtime.process import run_until_stopped
from leadsman.runtime.watched_files import UnusableFile
from leadsman.state.etcd_http import EtcdAccess
from leadsman.state.etcd_store import EtcdStore
from leadsman.state.store import Put, StoreError


def etcd_member_options(add: Options) -> None:
    add = add.without_environment()
    add.argument("config", "the file to write, for etcd's --config-file", None, Path, metavar="FILE", required=True)
    process_flags.etcd_options(add, default=None)
    process_flags.log_options(add)
    add.parser.add_argument(
        "flags",
        nargs="+",
        help="after `--`: etcd's own flags, as --NAME=VALUE; --initial-cluster names all members, --etcd their client "
        "URLs in the same order",
        metavar="ETCD-FLAG",
    )


def etcd_member_main(args: argparse.Namespace) -> int:
    """ValueError for flags that cannot be used, or when the file cannot be written."""
    if not args.etcd:
        raise ValueError("--etcd is missing: the client URLs of all members, in the order of --initial-cluster")
    access = EtcdAccess(args.etcd, str(args.etcd_ca or ""), args.etcd_user, password_file=args.etcd_password_file)
    try:
        asyncio.run(MemberStart(EtcdFlags.parse(args.flags), access).write_config(args.config))
    except OSError as error:
        raise ValueError(f"--config {args.config}: {error}") from error
    return 0


def etcd_issuer_options(add: Options) -> None:
    add = add.without_environment()
    serving = add.group("serving")
    serving.argument("listen", "address of the credentials, by TLS (default {default})", "0.0.0.0:9004", listen_address)
    serving.argument(
        "ops-listen", "address of /metrics, /healthz and /readyz (default {default})", "0.0.0.0:9005", listen_address
    )
    serving.argument("tls-cert", "our certificate, in PEM", None, existing_file, required=True)
    serving.argument("tls-key", "its key, in PEM", None, existing_file, required=True)
    serving.argument("namespace", "of the service accounts (default {default})", "leadsman", namespace_name)
    etcd = add.group("etcd")
    etcd.argument("etcd", "client URLs of etcd's members", None, url_list, required=True)
    etcd.argument("etcd-ca", "CA that etcd's certificate must chain to, in PEM", None, existing_file)
    etcd.argument(
        "etcd-password-file", "file with the password of etcd's user root", None, existing_file, required=True
    )
    process_flags.api_server_options(add)
    process_flags.log_options(add)


def etcd_issuer_main(args: argparse.Namespace) -> int:
    """ValueError for flags that do not fit together."""
    etcd = EtcdAccess(args.etcd, str(args.etcd_ca or ""), ROOT, password_file=args.etcd_password_file)
    etcd.read_password()
    settings = IssuerSettings(
        etcd=etcd,
        api=process_flags.api_access(args),
        namespace=args.namespace,
        certificate=args.tls_cert,
        key=args.tls_key,
        listen=split_host_port(args.listen),
        ops_listen=split_host_port(args.ops_listen),
    )
    return run_until_stopped(lambda stop: run(settings, stop), expected=(UnusableFile,))


def etcd_load_options(add: Options) -> None:
    add = add.without_environment()
    process_flags.etcd_options(add)
    process_flags.log_options(add)


def etcd_load_main(args: argparse.Namespace) -> int:
    """Reads standard input. ValueError when it holds no listing of etcdctl."""
    records = lasting_records(sys.stdin.buffer.read())
    try:
        written = asyncio.run(_write(args, records))
    except StoreError as error:
        print(f"leadsman etcd-load: {error}; what was written stays, run it again", file=sys.stderr)
        return 1
    print(f"{written} records written, {len(records) - written} were there already")
    return 0


async def _write(args: argparse.Namespace, records: Sequence[Put]) -> int:
    store = EtcdStore(process_flags.etcd_access(args))
    try:
        return await write_absent(store, records)
    finally:
        await store.close()
