"""`leadsman configure-scheduler`: make a kube-scheduler ask our extender, and take it back."""

import argparse
import difflib
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from leadsman.cli.configure import ConfigureError
from leadsman.cli.configure.backup import Backups
from leadsman.cli.configure.file_changes import ConfigureSettings, FileChange, plan_changes
from leadsman.cli.configure.scheduler_pod import has_dns_host
from leadsman.cli.options import Options, positive_int

EXTENDER_SERVICE = "leadsman-extender.leadsman.svc"

CERTIFICATE_FOLDER = "/etc/kubernetes/leadsman"


def options(add: Options) -> None:
    add.parser.add_argument(
        "file",
        type=Path,
        help="kube-scheduler's manifest (kubeadm: /etc/kubernetes/manifests/kube-scheduler.yaml), its configuration, or"
        " a second scheduler's Deployment and ConfigMap",
    )
    add.parser.add_argument("--dry-run", action="store_true", help="show the changes as a diff and make none")
    add.parser.add_argument("--undo", action="store_true", help="put every file back as it was")
    asked = add.group("extender")
    asked.flag("extender", "where it is called: https://IP-OR-NAME:9001", None, https_url, metavar="URL")
    name = f"what its certificate says (default: the URL's name; for an address {EXTENDER_SERVICE})"
    asked.flag("server-name", name, "", metavar="NAME")
    asked.flag("weight", "of its scores; see docs/deploying.md (default 5)", "5", positive_int)
    asked.flag("http-timeout", "how long a call may take (default 500ms)", "500ms", metavar="DURATION")
    asked.switch("managed", "only pods that ask for the resource telemetry/scheduling are sent")
    files = add.group("files")
    certs = (
        "ca.crt, client.crt and client.key of `leadsman certs`, on the scheduler's machine "
        f"(default {CERTIFICATE_FOLDER})"
    )
    files.flag("certs", certs, CERTIFICATE_FOLDER, metavar="DIR")
    config = "for a scheduler that has no configuration: the file to make (default scheduler.yaml in --certs)"
    files.flag("config", config, "", metavar="FILE")
    files.flag(
        "backups",
        f"where the files from before are kept (default {CERTIFICATE_FOLDER}/backup)",
        f"{CERTIFICATE_FOLDER}/backup",
        Path,
    )
    files.switch("elsewhere", "the file is for another machine: do not look whether the certificates are here")


def main(args: argparse.Namespace) -> int:
    backups = Backups(args.backups, args.file)
    try:
        return _undo(backups) if args.undo else _configure(args, backups)
    except OSError as error:
        print(f"leadsman configure-scheduler: {error.filename}: {error.strerror}; nothing more done", file=sys.stderr)
    except ConfigureError as error:
        print(f"leadsman configure-scheduler: {error}", file=sys.stderr)
    return 1


def settings(args: argparse.Namespace) -> ConfigureSettings:
    """ValueError when the flags do not fit together."""
    if not args.extender:
        raise ValueError("--extender https://IP-OR-NAME:9001 is missing")
    folder = args.certs.rstrip("/")
    name = args.server_name or ("" if has_dns_host(args.extender) else EXTENDER_SERVICE)
    config = args.config or f"{folder}/scheduler.yaml"
    if not Path(config).is_relative_to(folder):
        raise ValueError(f"--config {config}: want a file inside --certs {folder}, which one mount shows")
    return ConfigureSettings(args.extender, name, folder, config, args.weight, args.http_timeout, args.managed)


def _configure(args: argparse.Namespace, backups: Backups) -> int:
    wanted = settings(args)
    planned = plan_changes(str(args.file), args.file.read_bytes().decode(), _read, wanted)
    if not planned:
        print("nothing to do: the scheduler is set up already")
        return 0
    print(*map(_diff, planned), sep="", end="")
    if args.dry_run:
        return 0
    if not args.elsewhere:
        _check_certificates(wanted, planned)
    backups.apply(planned, datetime.now(UTC))
    print(f"\n{', '.join(change.path for change in planned)} written; --undo takes it back.")
    print("kubelet restarts a static pod by itself; restart a kube-scheduler of your own, apply a Deployment.")
    return 0


def _undo(backups: Backups) -> int:
    files = backups.undo()
    print(f"{', '.join(map(str, files))} put back" if files else "nothing to undo")
    return 0


def _check_certificates(wanted: ConfigureSettings, planned: Sequence[FileChange]) -> None:
    """kube-scheduler does not start without a file that its configuration names."""
    named = [f"{wanted.folder}/{name}" for name in ("ca.crt", "client.crt", "client.key")]
    text = "".join(change.after for change in planned)
    missing = [path for path in named if path in text and not Path(path).is_file()]
    if missing:
        raise ConfigureError(f"{', '.join(missing)} missing; copy them there from `leadsman certs`, or say --elsewhere")


def _diff(change: FileChange) -> str:
    before = (change.before or "").splitlines(keepends=True)
    name = "/dev/null" if change.before is None else change.path
    return "".join(difflib.unified_diff(before, change.after.splitlines(keepends=True), name, change.path))


def _read(path: str) -> str | None:
    return Path(path).read_bytes().decode() if Path(path).exists() else None


def https_url(text: str) -> str:
    if not text.startswith("https://") or len(text) == len("https://"):
        raise argparse.ArgumentTypeError(f"{text!r}: want https://IP-OR-NAME:PORT; plain HTTP is never configured")
    return text.rstrip("/")
