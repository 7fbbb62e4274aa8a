"""Reading small kernel files. `os.read` because it costs a third of `open().read()` (5 against 13 µs a file)."""

import os
from collections.abc import Callable
from typing import TypeVar

from agent.hardware.samples import ABSENT_ERRNOS, SensorFault

T = TypeVar("T")

_CHUNK_BYTES = 65_536


class MalformedFile(ValueError):
    """Text that a parser cannot read. Nothing to do on the node: report it with the kernel's version."""


def read_file(path: str) -> str:
    """The whole file. OSError as the kernel gave it."""
    file = os.open(path, os.O_RDONLY)
    try:
        return _drain(file).decode("utf-8", "replace")
    finally:
        os.close(file)


def parse_file(path: str, parse: Callable[[str], T]) -> T:
    """parse(text of path). MalformedFile names the file and shows the start of its text."""
    text = read_file(path)
    try:
        return parse(text)
    except (ValueError, LookupError) as error:
        raise MalformedFile(f"{path}: {text[:80]!r}: {error}") from error


def parse_optional_file(path: str, parse: Callable[[str], T]) -> T | None:
    """As parse_file; None where the kernel has no such file or value."""
    try:
        return parse_file(path, parse)
    except OSError as error:
        if error.errno in ABSENT_ERRNOS:
            return None
        raise


def parse_file_or_fault(path: str, parse: Callable[[str], T]) -> T | SensorFault | None:
    """As parse_optional_file; a SensorFault where the file is there and cannot be read or parsed."""
    try:
        return parse_optional_file(path, parse)
    except MalformedFile as error:
        return SensorFault(str(error))
    except OSError as error:
        return SensorFault(f"{path}: {error.strerror}")


def list_directory(path: str) -> list[str]:
    """The directory's entries, in order; none where there is no such directory."""
    try:
        return sorted(os.listdir(path))
    except (FileNotFoundError, NotADirectoryError):
        return []


def _drain(file: int) -> bytes:
    chunks = []
    while chunk := os.read(file, _CHUNK_BYTES):
        chunks.append(chunk)
    return b"".join(chunks)
