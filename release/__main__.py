"""`make release VERSION=0.2.0`: sets the version wherever it stands, gives the changelog's unreleased lines its
heading, commits and tags. Pushes nothing. With --chart it names the release's images in a packaged chart.
"""

import argparse
import re
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

HOME = "leadsman/runtime/version.py"
"""The file that setup.cfg reads the version from. The others repeat it, and tests compare."""

REPEATED_IN = (HOME, "Dockerfile", "README.md", "charts/leadsman/Chart.yaml", "daemonset/**/*.yaml", "docs/*.md")

BEFORE_OURS = "|".join(
    (
        r"(?m:^(?:version: |appVersion: |ARG VERSION=|VERSION = \"))",
        r"newTag: |app\.kubernetes\.io/version: ",
        r"\bleadsman(?:-agent)?:",
    )
)
"""What stands before a version of ours."""

UNRELEASED = "## Unreleased"


def main(arguments: Sequence[str], root: Path, date: str) -> int:
    """Makes a release, and returns 0. ValueError says why nothing was changed."""
    parser = argparse.ArgumentParser(prog="python -m release")
    parser.add_argument("version", help="such as 0.2.0")
    parser.add_argument(
        "--notes", action="store_true", help="print this release's lines of CHANGELOG.md, change nothing"
    )
    parser.add_argument("--chart", type=Path, help="name the release's images in this values.yaml, change nothing else")
    parser.add_argument("--images", type=Path, help="with --chart: lines as leadsman@sha256:…")
    parser.add_argument("--registry", default="registry.example.com", help="with --chart (default %(default)s)")
    args = parser.parse_args(arguments)
    if args.chart:
        args.chart.write_text(with_images(args.chart.read_text(), args.registry, args.images.read_text()))
        return 0
    changelog = root / "CHANGELOG.md"
    if args.notes:
        print(notes(changelog.read_text(), UNRELEASED if ".dev" in args.version else f"## {args.version}"))
        return 0
    old = current_version(root)
    _check(root, args.version, old)
    if not notes(changelog.read_text(), UNRELEASED):
        raise ValueError(f"CHANGELOG.md: nothing stands under `{UNRELEASED}`; there is nothing to release")
    for path in (path for pattern in REPEATED_IN for path in root.glob(pattern)):
        path.write_text(with_version(path.read_text(), old, args.version))
    changelog.write_text(changelog.read_text().replace(UNRELEASED, f"{UNRELEASED}\n\n## {args.version}, {date}", 1))
    _git(root, "commit", "--quiet", "--all", "--message", f"Release {args.version}")
    _git(root, "tag", "--annotate", f"v{args.version}", "--message", f"Leadsman {args.version}")
    print(f"v{args.version} is committed and tagged here; push both with: git push origin HEAD v{args.version}")
    return 0


def current_version(root: Path) -> str:
    found = re.search(r'^VERSION = "(.+)"$', (root / HOME).read_text(), re.MULTILINE)
    if not found:
        raise ValueError(f'{HOME}: no line `VERSION = "…"`')
    return found[1]


def with_version(text: str, old: str, new: str) -> str:
    """Replaces our old version in the text wherever it is ours. The chart's is SemVer: 0.2.0-dev0 for 0.2.0.dev0."""
    spelled = re.escape(old).replace(r"\.dev", "[.-]dev")
    return re.sub(rf"({BEFORE_OURS}){spelled}(?![\d.])", rf"\g<1>{new}", text)


def with_images(values: str, registry: str, images: str) -> str:
    """Writes the registry and each image's digest into the chart's values. ValueError when one is not named there."""
    lines = values.splitlines(keepends=True)
    for image in images.split():
        name, _, digest = image.partition("@")
        places = [place for place, line in enumerate(lines) if line.strip() == f"repository: {name}"]
        if len(places) != 1:
            raise ValueError(f"the chart's values name the image {name} {len(places)} times; want once")
        place = next(place for place in range(places[0], len(lines)) if lines[place].strip().startswith("digest:"))
        lines[place] = re.sub('".*"', f'"{digest}"', lines[place])
    return re.sub(r"(?m)^(image:\n  registry: ).*", rf"\g<1>{registry}", "".join(lines))


def notes(changelog: str, heading: str) -> str:
    """Returns the lines under the heading that begins so. ValueError when there is no such heading."""
    match = re.search(rf"(?ms)^{re.escape(heading)}\b[^\n]*\n(.*?)(?=^## |\Z)", changelog)
    if not match:
        raise ValueError(f"CHANGELOG.md has no heading `{heading}`")
    return match[1].strip()


def _check(root: Path, new: str, old: str) -> None:
    if not re.fullmatch(r"\d+\.\d+\.\d+", new):
        raise ValueError(f"version {new!r}: want three numbers such as 0.2.0")
    if _numbers(new) < _numbers(old) or new == old:
        raise ValueError(f"version {new}: {HOME} has {old} already; want a larger one")
    if _git(root, "tag", "--list", f"v{new}"):
        raise ValueError(f"the tag v{new} exists")
    changed = _git(root, "status", "--porcelain")
    if changed:
        raise ValueError(f"the tree is not clean; commit first:\n{changed}")


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.partition(".dev")[0].split(".")]


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
