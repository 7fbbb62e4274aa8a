"""`leadsman etcd-load`: write rewards that were saved from another etcd, where this one has none."""

import argparse
import asyncio
import sys
from collections.abc import Sequence

from leadsman.cli.flags import etcd_flags, log_flags
from leadsman.cli.flags.options import Options
from leadsman.etcd.saved_records import lasting_records, write_absent
from leadsman.state.etcd_store import EtcdStore
from leadsman.state.store import Put, StoreError


def options(add: Options) -> None:
    add = add.without_environment()
    etcd_flags.options(add)
    log_flags.options(add)


def main(args: argparse.Namespace) -> int:
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
    store = EtcdStore(etcd_flags.settings(args))
    try:
        return await write_absent(store, records)
    finally:
        await store.close()
