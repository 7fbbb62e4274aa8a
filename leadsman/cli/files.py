"""Replaces files as a whole or not at all."""

import os
from collections.abc import Iterable
from pathlib import Path


def replace_file(path: Path, content: bytes | Iterable[bytes], mode: int | None = None) -> None:
    """Replaces a file. OSError leaves the old one, and nothing else. A pipe or device stays, and is written to.

    mode: None: owner and mode stay, 0644 if new.
    """
    lines = [content] if isinstance(content, bytes) else content
    if path.exists() and not path.is_file():
        with path.open("wb") as device:
            return device.writelines(lines)
    target = path.resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    there = target.stat() if target.exists() and mode is None else None
    new = target.with_name(f".{target.name}.leadsman")
    new.unlink(missing_ok=True)
    try:
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.writelines(lines)
            os.fchmod(file.fileno(), mode or (there.st_mode & 0o777 if there else 0o644))
            if there and (there.st_uid, there.st_gid) != (os.geteuid(), os.getegid()):
                os.fchown(file.fileno(), there.st_uid, there.st_gid)
            file.flush()
            os.fsync(file.fileno())
        new.replace(target)
    finally:
        new.unlink(missing_ok=True)
