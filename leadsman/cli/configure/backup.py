"""Writes files that can be restored: a copy of each is made before the first is changed, and a record of what was
written.

Copies lie in a folder of their own. In kubelet's manifests folder every file that does not begin with a dot is a pod.
"""

import hashlib
import os
import shutil
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import msgspec
from msgspec import Struct

from leadsman.cli.configure import ConfigureError
from leadsman.cli.configure.file_changes import FileChange
from leadsman.runtime.decode_errors import UNREADABLE, explain


class BackupEntry(Struct, frozen=True):
    """One file that was written.

    path: the file.
    copy: name, in the record's folder, of what it was before the first write; None: the file did not exist.
    digest: SHA-256 of what was written.
    """

    path: str
    copy: str | None
    digest: str


class Backups:
    """Backups of one file that was configured, and of those that changed with it."""

    def __init__(self, folder: Path, configured: Path) -> None:
        self._folder = folder / str(configured.absolute()).strip("/").replace("/", "_")
        self._record = self._folder / "record.json"

    def apply(self, changes: Sequence[FileChange], now: datetime) -> None:
        """Writes the changes. OSError, before anything is changed, when a copy cannot be made."""
        known = {entry.path: entry for entry in self._entries()}
        entries = [self._kept(change, known.get(change.path), now) for change in changes]
        rest = [entry for path, entry in known.items() if path not in {change.path for change in changes}]
        _replace(self._record, msgspec.json.encode([*rest, *entries]), 0o600)
        for change in changes:
            Path(change.path).parent.mkdir(parents=True, exist_ok=True)
            _replace(Path(change.path), change.after.encode(), 0o644)

    def undo(self) -> list[Path]:
        """Restores the files and names them. ConfigureError, with nothing changed, when one was changed since."""
        entries = [entry for entry in reversed(self._entries()) if not self._is_back(entry)]
        for entry in entries:
            if _digest(Path(entry.path)) != entry.digest:
                copy = f"{self._folder / entry.copy} is what it was" if entry.copy else "the file did not exist before"
                raise ConfigureError(
                    f"{entry.path} was changed after configure-scheduler wrote it; remove the extender's lines by hand"
                    f"; {copy}"
                )
        for entry in entries:
            if entry.copy:
                _replace(Path(entry.path), (self._folder / entry.copy).read_bytes(), 0o644)
            else:
                Path(entry.path).unlink()
        self._record.unlink(missing_ok=True)
        return [Path(entry.path) for entry in entries]

    def _entries(self) -> list[BackupEntry]:
        if not self._record.exists():
            return []
        try:
            return msgspec.json.decode(self._record.read_bytes(), type=list[BackupEntry])
        except UNREADABLE as error:
            raise ConfigureError(
                f"{self._record}: {explain(error)}; move this file away; the copies beside it remain valid"
            ) from error

    def _kept(self, change: FileChange, known: BackupEntry | None, now: datetime) -> BackupEntry:
        """The entry of a change. A file that we wrote needs no copy: the one from before the first time stays."""
        digest = hashlib.sha256(change.after.encode()).hexdigest()
        if known and _digest(Path(change.path)) == known.digest:
            return BackupEntry(change.path, known.copy, digest)
        return BackupEntry(change.path, None if change.before is None else self._copied(change, now), digest)

    def _copied(self, change: FileChange, now: datetime) -> str:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        name = f"{Path(change.path).name}.{now:%Y%m%dT%H%M%SZ}"
        shutil.copy2(change.path, self._folder / name)
        if (self._folder / name).read_bytes().decode() != change.before:
            raise ConfigureError(f"{change.path}: changed while it was read; try again")
        return name

    def _is_back(self, entry: BackupEntry) -> bool:
        path = Path(entry.path)
        if entry.copy is None:
            return not path.exists()
        return path.exists() and path.read_bytes() == (self._folder / entry.copy).read_bytes()


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else ""


def _replace(path: Path, content: bytes, mode: int) -> None:
    """As a whole, with the owner and the mode that it had; `mode` for a new one."""
    target = path.resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    there = target.stat() if target.exists() else None
    new = target.with_name(f".{target.name}.leadsman")
    new.unlink(missing_ok=True)
    try:
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content)
            os.fchmod(file.fileno(), there.st_mode & 0o777 if there else mode)
            if there and (there.st_uid, there.st_gid) != (os.geteuid(), os.getegid()):
                os.fchown(file.fileno(), there.st_uid, there.st_gid)
            file.flush()
            os.fsync(file.fileno())
        new.replace(target)
    finally:
        new.unlink(missing_ok=True)
