"""The commands that a kept demo offers: each works when it is pasted into a shell of the user who started the demo."""

import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from leadsman.state import keys
from leadsman.testbed import etcd, user_namespace


def commands(extender: str, pages: Sequence[str], etcd_url: str) -> Iterator[str]:
    """extender: its URL. pages: URLs of the agents' metrics. etcdctl and a fetcher only where there is one."""
    fetch = _fetch_command()
    yield _command(*leadsman_command(), "explain", "cap-00000", "--extender", extender)
    if fetch:
        yield from (_command(*fetch, page) for page in (f"{extender}/state", *pages))
    if etcdctl := _etcdctl():
        yield _command(etcdctl, "--endpoints", etcd_url, "get", "--prefix", keys.NODES_PREFIX)


def leadsman_command() -> list[str]:
    """`leadsman` where PATH leads to this installation; else its full path."""
    own = Path(sys.executable).with_name("leadsman")
    if not own.exists():
        return [sys.executable, "-m", "leadsman.cli.main"]
    found = shutil.which("leadsman")
    return ["leadsman"] if found and Path(found).samefile(own) else [str(own)]


def _fetch_command() -> list[str]:
    known = {"curl": ["curl", "-s"], "wget": ["wget", "-qO-"]}
    return next((command for name, command in known.items() if shutil.which(name)), [])


def _etcdctl() -> str | None:
    """On PATH, or beside the etcd that runs."""
    beside = etcd.find_binary().with_name("etcdctl")
    return "etcdctl" if shutil.which("etcdctl") else str(beside) if beside.exists() else None


def _command(*words: str) -> str:
    return shlex.join([*user_namespace.command_prefix(), *words])
