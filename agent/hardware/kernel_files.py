"""Reads the host's kernel files: small ones with `os.read`, which costs a third of `open().read()` (5 against 13 µs),
and those that psutil parses, by psutil.
"""

import errno
import os
from collections.abc import Callable, Iterable
from typing import TypeVar

import psutil

from leadsman.plugin import HostRoots, Sample, SensorFault

Labels = tuple[str, ...]

ABSENT_ERRNOS = frozenset(
    {errno.ENOENT, errno.ENOTDIR, errno.ENODEV, errno.ENXIO, errno.ENODATA, errno.EOPNOTSUPP, errno.EINVAL}
)
"""Says how the kernel says "there is none". EOPNOTSUPP: PSI is off; ENODATA: a sensor sleeps; EINVAL: a link down."""

CollectFunction = Callable[[HostRoots], Iterable[Sample | SensorFault]]
"""Ours are functions, those of other packages the method `collect` of leadsman.plugin.Metrics."""


T = TypeVar("T")

_CHUNK_BYTES = 65_536


class MalformedFile(ValueError):
    """Text that a parser cannot read. Nothing to do on the node: report it with the kernel's version."""


def read_file(path: str) -> str:
    """Returns the whole file. Raises OSError as the kernel gave it."""
    file = os.open(path, os.O_RDONLY)
    try:
        chunks = iter(lambda: os.read(file, _CHUNK_BYTES), b"")
        return b"".join(chunks).decode("utf-8", "replace")
    finally:
        os.close(file)


def parse_file(path: str, parse: Callable[[str], T]) -> T:
    """Returns parse(text of path). MalformedFile names the file and shows the start of its text."""
    text = read_file(path)
    try:
        return parse(text)
    except (ValueError, LookupError) as error:
        raise MalformedFile(f"{path}: {text[:80]!r}: {error}") from error


def parse_optional_file(path: str, parse: Callable[[str], T]) -> T | None:
    """Parses as parse_file does; None where the kernel has no such file or value."""
    try:
        return parse_file(path, parse)
    except OSError as error:
        if error.errno in ABSENT_ERRNOS:
            return None
        raise


def parse_file_or_fault(path: str, parse: Callable[[str], T]) -> T | SensorFault | None:
    """Parses as parse_optional_file does; a SensorFault where the file is there and cannot be read or parsed."""
    try:
        return parse_optional_file(path, parse)
    except MalformedFile as error:
        return SensorFault(str(error))
    except OSError as error:
        return SensorFault(f"{path}: {error.strerror}")


def list_directory(path: str) -> list[str]:
    """Returns the directory's entries, in order; none where there is no such directory."""
    try:
        return sorted(os.listdir(path))
    except (FileNotFoundError, NotADirectoryError):
        return []


def read_by_psutil(proc_root: str, file: str, read: Callable[[], T]) -> T:
    """Returns read(), by which psutil reads this file of proc_root. Raises MalformedFile when psutil cannot parse it.

    psutil follows its root, one for the whole process, for stat, meminfo, vmstat and diskstats. It does not for load
    averages, network devices, mount tables and sensors, which the agent reads itself: docs/decisions/0017 says why.
    """
    psutil.PROCFS_PATH = proc_root
    try:
        return read()
    except (ValueError, LookupError, TypeError) as error:
        raise MalformedFile(f"{proc_root}/{file}: psutil cannot parse it: {error!r}") from error
