"""Names network namespaces by the process that made them, so that those of a dead process can be removed.

Name: leadsman-<pid>-<start of that process in clock ticks since boot>-<host>.
"""

import contextlib
import ctypes
import os
import re
import signal
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

PREFIX = "leadsman"
_NAME = re.compile(rf"{PREFIX}-(\d+)-(\d+)-.+")
_HOME = Path("/run/netns")
_OWN = "/proc/self/ns/net"
_DEAD = "ZX"
_CLONE_NEWNET = 0x40000000  # linux/sched.h
_libc = ctypes.CDLL(None, use_errno=True)


def run_prefix(pid: int) -> str:
    """Returns the prefix of the names that process `pid` gives."""
    return f"{PREFIX}-{pid}-{_started(pid)}-"


def existing() -> list[str]:
    """Returns the names of all our namespaces, of any process. Those that others named `leadsman-…` are not ours."""
    return sorted(p.name for p in _HOME.iterdir() if _NAME.fullmatch(p.name)) if _HOME.is_dir() else []


def stale() -> list[str]:
    """Returns the names of namespaces whose process no longer runs."""
    return [name for name in existing() if not _maker_runs(name)]


def add(names: Iterable[str]) -> None:
    _ip_batch(f"netns add {name}" for name in names)


def remove(names: Sequence[str]) -> None:
    """Kills the processes in the namespaces and removes them. A namespace that does not exist is no error."""
    for name in names:
        for pid in _pids(name):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    if names:
        _ip_batch((f"netns del {name}" for name in names), go_on=True)


@contextlib.contextmanager
def inside(name: str) -> Iterator[None]:
    """Puts the calling thread into the namespace: its sockets, devices, /proc/sys/net and child processes."""
    back = os.open(_OWN, os.O_RDONLY)
    try:
        there = os.open(_HOME / name, os.O_RDONLY)
        try:
            _set(there)
        finally:
            os.close(there)
        yield
    finally:
        _set(back)
        os.close(back)


def configure(commands: Iterable[str]) -> None:
    """Runs `ip` commands in the calling thread's namespace. CalledProcessError when one is refused."""
    _ip_batch(commands)


def _set(descriptor: int) -> None:
    if _libc.setns(descriptor, _CLONE_NEWNET):
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))


def _ip_batch(commands: Iterable[str], go_on: bool = False) -> None:
    options = ["-force"] if go_on else []
    subprocess.run(
        ["ip", *options, "-batch", "-"],
        input="\n".join(commands) + "\n",
        text=True,
        check=not go_on,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL if go_on else None,
    )


def _pids(name: str) -> list[int]:
    done = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True, check=False)
    return [int(pid) for pid in done.stdout.split() if int(pid) != os.getpid()]


def _maker_runs(name: str) -> bool:
    made_by = _NAME.fullmatch(name)
    return made_by is not None and _started(int(made_by[1])) == made_by[2]


def _started(pid: int) -> str:
    """Returns field 22 of /proc/<pid>/stat, proc(5); "" when the process does not exist or is a zombie."""
    try:
        state, *fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].decode().split()
    except OSError:
        return ""
    return "" if state in _DEAD else fields[18]
