"""`make release VERSION=0.2.0`: sets the version, moves the changelog's lines, commits and tags. Pushes nothing."""

import argparse
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from release.versions import REPEATED_IN, SETUP, VERSION, current_version, notes, released, with_version


def main(arguments: Sequence[str], root: Path, date: str) -> int:
    """0: done. ValueError says why nothing was changed."""
    parser = argparse.ArgumentParser(prog="python -m release")
    parser.add_argument("version", help="such as 0.2.0")
    parser.add_argument(
        "--notes", action="store_true", help="print this release's lines of CHANGELOG.md, change nothing"
    )
    args = parser.parse_args(arguments)
    changelog = root / "CHANGELOG.md"
    if args.notes:
        print(notes(changelog.read_text(), f"## {args.version}"))
        return 0
    old = current_version((root / SETUP).read_text())
    _check(root, args.version, old)
    text = released(changelog.read_text(), args.version, date)
    for path in (root / SETUP, *(path for pattern in REPEATED_IN for path in root.glob(pattern))):
        path.write_text(with_version(path.read_text(), old, args.version))
    changelog.write_text(text)
    _git(root, "commit", "--quiet", "--all", "--message", f"Release {args.version}")
    _git(root, "tag", "--annotate", f"v{args.version}", "--message", f"Leadsman {args.version}")
    print(f"v{args.version} is committed and tagged here; push both with: git push origin HEAD v{args.version}")
    return 0


def _check(root: Path, new: str, old: str) -> None:
    if not VERSION.fullmatch(new):
        raise ValueError(f"version {new!r}: want three numbers such as 0.2.0")
    if [int(part) for part in new.split(".")] <= [int(part) for part in old.split(".")]:
        raise ValueError(f"version {new}: {SETUP} has {old} already; want a larger one")
    if _git(root, "tag", "--list", f"v{new}"):
        raise ValueError(f"the tag v{new} exists")
    changed = _git(root, "status", "--porcelain")
    if changed:
        raise ValueError(f"the tree is not clean; commit first:\n{changed}")


def _git(root: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ValueError(f"git {words[0]}: {done.stderr.strip()}")
    return done.stdout.strip()


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:], Path.cwd(), f"{datetime.now(UTC):%Y-%m-%d}"))
    except ValueError as error:
        sys.exit(f"release: {error}")
