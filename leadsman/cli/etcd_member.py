"""`leadsman etcd-member`: find out how a member of etcd begins, and write the configuration file for it."""

import argparse
import asyncio
from pathlib import Path

from leadsman.cli.flags import etcd_flags, log_flags
from leadsman.cli.flags.options import Options
from leadsman.etcd.member_start import EtcdFlags, MemberStart
from leadsman.state.etcd_http import EtcdAccess


def options(add: Options) -> None:
    add = add.without_environment()
    add.argument("config", "the file to write, for etcd's --config-file", None, Path, metavar="FILE", required=True)
    etcd_flags.options(add, default=None)
    log_flags.options(add)
    add.parser.add_argument(
        "flags",
        nargs="+",
        help="after `--`: etcd's own flags, as --NAME=VALUE; --initial-cluster names all members, --etcd their client "
        "URLs in the same order",
        metavar="ETCD-FLAG",
    )


def main(args: argparse.Namespace) -> int:
    """ValueError for flags that cannot be used, or when the file cannot be written."""
    if not args.etcd:
        raise ValueError("--etcd is missing: the client URLs of all members, in the order of --initial-cluster")
    access = EtcdAccess(args.etcd, str(args.etcd_ca or ""), args.etcd_user, password_file=args.etcd_password_file)
    try:
        asyncio.run(MemberStart(EtcdFlags.parse(args.flags), access).write_config(args.config))
    except OSError as error:
        raise ValueError(f"--config {args.config}: {error}") from error
    return 0
