"""`leadsman configure-scheduler`: add the extender to a kube-scheduler's configuration, or remove it.

Files are written so that they can be restored: before the first is changed, a copy of each is made and a record of what
will be written. Copies lie in a folder of their own, because in kubelet's manifests folder every file that does not
begin with a dot is a pod.
"""

import argparse
import difflib
import hashlib
import re
import shutil
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from msgspec import Struct

from leadsman.cli.files import replace_file
from leadsman.cli.flags.options import CommandFailed, Options
from leadsman.cli.flags.values import checked, one_of
from leadsman.cli.scheduler_files import ConfigureSettings, FileChange, has_dns_host, plan_changes
from leadsman.cli.yaml_editing import ConfigureError
from leadsman.runtime.decode_errors import UNREADABLE, explain

EXTENDER_SERVICE = "leadsman-extender.leadsman.svc"

CERTIFICATE_FOLDER = "/etc/kubernetes/leadsman"
DEFAULT_BACKUPS = f"{CERTIFICATE_FOLDER}/backup"

WAITS_FOR_ITSELF = (
    "leadsman configure-scheduler: warning: with --ignorable false every pod waits while no extender answers, and the "
    "extender's own pods are among them: once all are deleted, none is placed again. With --managed only pods that "
    "request telemetry/scheduling wait"
)


def options(add: Options) -> None:
    add.parser.add_argument(
        "file",
        type=Path,
        metavar="FILE",
        help="kube-scheduler's manifest (kubeadm: /etc/kubernetes/manifests/kube-scheduler.yaml), or its configuration",
    )
    add.parser.add_argument("--dry-run", action="store_true", help="show the changes as a diff and write nothing")
    add.parser.add_argument("--undo", action="store_true", help="restore every file as it was before")
    extender_options(add.group("extender"))
    file_options(add.group("files"))


def extender_options(add: Options) -> None:
    add.argument(
        "extender", "URL at which kube-scheduler calls the extender", None, https_url, metavar="https://IP-OR-NAME:9001"
    )
    add.argument(
        "server-name",
        f"name in the extender's certificate (default: the URL's name; for an address {EXTENDER_SERVICE})",
        "",
        metavar="NAME",
    )
    add.argument("weight", "weight of the extender's scores; see docs/deploying.md", 5)
    add.argument("http-timeout", "time limit of one call", "500ms", duration, metavar="DURATION")
    add.parser.add_argument(
        "--managed", action="store_true", help="send only pods that request the resource telemetry/scheduling"
    )
    add.argument(
        "ignorable",
        "true: pods bind unchecked while no extender answers; false: they wait, the extender's own pods too, so pass "
        "--managed with it",
        "true",
        one_of("true", "false"),
        metavar="true|false",
    )


def file_options(add: Options) -> None:
    add.argument(
        "certs",
        "folder on the scheduler's machine with ca.crt, client.crt and client.key of `leadsman certs` ",
        CERTIFICATE_FOLDER,
        metavar="DIR",
    )
    add.argument(
        "config",
        "file to write for a scheduler that has no configuration (default scheduler.yaml in --certs)",
        "",
        metavar="FILE",
    )
    add.argument(
        "backups",
        f"folder of the files as they were before (default {DEFAULT_BACKUPS})",
        DEFAULT_BACKUPS,
        Path,
        metavar="DIR",
    )
    add.parser.add_argument(
        "--elsewhere",
        action="store_true",
        help="the scheduler runs on another machine: do not check that the certificates exist on this one",
    )


def main(args: argparse.Namespace) -> int:
    backups = Backups(args.backups, args.file)
    try:
        return _undo(args, backups) if args.undo else _configure(args, backups)
    except OSError as error:
        undo = f". Files that were already written can be restored with {backups.undo_flags}"
        raise CommandFailed(
            f"{error.filename}: {error.strerror}; stopped{undo if backups.has_record else ''}"
        ) from error


def settings(args: argparse.Namespace) -> ConfigureSettings:
    """Returns the settings for the scheduler. Raises ValueError when the flags do not fit together."""
    if not args.extender:
        raise ValueError("--extender https://IP-OR-NAME:9001 is missing")
    folder = args.certs.rstrip("/")
    name = args.server_name or ("" if has_dns_host(args.extender) else EXTENDER_SERVICE)
    config = args.config or f"{folder}/scheduler.yaml"
    if not Path(config).is_relative_to(folder):
        raise ValueError(f"--config {config}: want a file inside --certs {folder}, so that one mount shows both")
    return ConfigureSettings(
        args.extender,
        name,
        folder,
        config,
        args.weight,
        args.http_timeout,
        managed=args.managed,
        ignorable=args.ignorable == "true",
    )


def _configure(args: argparse.Namespace, backups: "Backups") -> int:
    configured = settings(args)
    if not (configured.ignorable or configured.managed):
        print(WAITS_FOR_ITSELF, file=sys.stderr)
    changes = plan_changes(str(args.file), args.file.read_bytes().decode(), _read, configured)
    if not changes:
        print("nothing to do: the scheduler already asks the extender")
        return 0
    print(*map(_diff, changes), sep="", end="")
    for url in sorted({url for change in changes for url in _replaced_extenders(change)}):
        print(f"\nthe extender at {url} is replaced; {backups.undo_flags} brings it back")
    if args.dry_run:
        return 0
    if not args.elsewhere:
        _check_certificates(configured, changes)
    backups.apply(changes, datetime.now(UTC))
    written = ", ".join(change.path for change in changes)
    print(f"\n{written} written; {backups.undo_flags} restores what was there before.")
    print("kubelet restarts a static pod by itself. Restart any other kube-scheduler.")
    return 0


def _undo(args: argparse.Namespace, backups: "Backups") -> int:
    if not backups.has_record:
        raise CommandFailed(f"{args.file}: no backup of this file in --backups {args.backups}; nothing was undone")
    files = backups.undo()
    print(f"{', '.join(map(str, files))} restored" if files else f"{args.file} is as it was: nothing to undo")
    return 0


def _check_certificates(configured: ConfigureSettings, changes: Sequence[FileChange]) -> None:
    """kube-scheduler does not start without a file that its configuration names."""
    named = [f"{configured.folder}/{name}" for name in ("ca.crt", "client.crt", "client.key")]
    text = "".join(change.after for change in changes)
    missing = [path for path in named if path in text and not Path(path).is_file()]
    if missing:
        raise ConfigureError(
            f"{', '.join(missing)} missing on this machine; copy the files from the folder of `leadsman certs`, "
            "or pass --elsewhere when the scheduler runs on another machine"
        )


def _diff(change: FileChange) -> str:
    before = (change.before or "").splitlines(keepends=True)
    name = "/dev/null" if change.before is None else change.path
    return "".join(difflib.unified_diff(before, change.after.splitlines(keepends=True), name, change.path))


def _replaced_extenders(change: FileChange) -> set[str]:
    """Returns the URLs of extenders that the file no longer has."""
    before, after = (
        set(re.findall(r"urlPrefix\W+(https?://[^\s\"',}]+)", text or "")) for text in (change.before, change.after)
    )
    return before - after


def _read(path: str) -> str | None:
    return Path(path).read_bytes().decode() if Path(path).exists() else None


def duration(text: str) -> str:
    """Parses a duration as Go writes one."""
    return checked(text, re.fullmatch(r"([0-9]+(\.[0-9]+)?(ms|s|m))+", text), "a duration such as 500ms or 1.5s")


def https_url(text: str) -> str:
    is_fine = re.fullmatch(r"https://([^\s/:\[\]]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?(/[^\s]*)?", text, re.ASCII)
    return checked(text, is_fine, "https://IP-OR-NAME:PORT, an IPv6 address in [brackets]; no plain HTTP").rstrip("/")


class BackupEntry(Struct, frozen=True):
    """One file that was written, and the copy of what it was before.

    path: the file.
    copy: name, in the record's folder, of what it was before the first write; None: the file did not exist.
    digest: SHA-256 of what was written.
    """

    path: str
    copy: str | None
    digest: str


class Backups:
    """Keeps backups of one file that was configured, and of those that changed with it."""

    def __init__(self, folder: Path, configured: Path) -> None:
        self._folder = folder / str(configured.absolute()).strip("/").replace("/", "_")
        self._record = self._folder / "record.json"
        self.undo_flags = "--undo" if str(folder) == DEFAULT_BACKUPS else f"--undo --backups {folder}"

    @property
    def has_record(self) -> bool:
        """Tells whether the file was configured, and not undone since."""
        return self._record.exists()

    def apply(self, changes: Sequence[FileChange], now: datetime) -> None:
        """Writes the changes. OSError, before anything is changed, when a copy cannot be made."""
        known = {entry.path: entry for entry in self._entries()}
        entries = [self._kept(change, known.get(change.path), now) for change in changes]
        rest = [entry for path, entry in known.items() if path not in {change.path for change in changes}]
        replace_file(self._record, msgspec.json.encode([*rest, *entries]), 0o600)
        for change in changes:
            replace_file(Path(change.path), change.after.encode())

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
                replace_file(Path(entry.path), (self._folder / entry.copy).read_bytes())
            else:
                Path(entry.path).unlink()
        self._record.unlink(missing_ok=True)
        return [Path(entry.path) for entry in entries]

    def _entries(self) -> list[BackupEntry]:
        if not self.has_record:
            return []
        try:
            return msgspec.json.decode(self._record.read_bytes(), type=list[BackupEntry])
        except UNREADABLE as error:
            raise ConfigureError(
                f"{self._record}: {explain(error)}; move this file away; the copies beside it remain valid"
            ) from error

    def _kept(self, change: FileChange, known: BackupEntry | None, now: datetime) -> BackupEntry:
        """Returns the entry of a change. A file that we wrote needs no copy: the one from before the first time
        stays."""
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
