"""The version, wherever it stands, and the changelog's headings. Text in, text out."""

import re

VERSION = re.compile(r"\d+\.\d+\.\d+")

UNRELEASED = "## Unreleased"

SETUP = "setup.cfg"
"""The one home of the version. All the other files repeat it, and tests compare."""

REPEATED_IN = (
    "Dockerfile",
    "README.md",
    "charts/leadsman/Chart.yaml",
    "daemonset/**/*.yaml",
    "docs/*.md",
    "leadsman/runtime/version.py",
)

_PLACES = (
    r"(?m)^(version = )",
    r"(?m)^(ARG VERSION=)",
    r"(?m)^(VERSION = \")",
    r"(?m)^((?:version|appVersion): )",
    r"(?m)^(\s*newTag: )",
    r"(app\.kubernetes\.io/version: )",
    r"(\bleadsman(?:-agent)?:)",
)
"""What stands before a version of ours."""


def current_version(setup: str) -> str:
    """The version of setup.cfg. ValueError when it has none."""
    match = re.search(r"(?m)^version = (\S+)$", setup)
    if not match:
        raise ValueError(f"{SETUP}: no line `version = …`")
    return match[1]


def with_version(text: str, old: str, new: str) -> str:
    """The file's text with our old version replaced wherever it is ours."""
    for place in _PLACES:
        text = re.sub(rf"{place}{re.escape(old)}(?![\d.])", rf"\g<1>{new}", text)
    return text


def released(changelog: str, version: str, date: str) -> str:
    """The changelog with the unreleased lines under this version's heading. ValueError when there are none."""
    if not notes(changelog, UNRELEASED):
        raise ValueError(f"CHANGELOG.md: nothing stands under `{UNRELEASED}`; there is nothing to release")
    return changelog.replace(UNRELEASED, f"{UNRELEASED}\n\n## {version}, {date}", 1)


def notes(changelog: str, heading: str) -> str:
    """The lines under the heading that begins so. ValueError when there is no such heading."""
    match = re.search(rf"(?ms)^{re.escape(heading)}\b[^\n]*\n(.*?)(?=^## |\Z)", changelog)
    if not match:
        raise ValueError(f"CHANGELOG.md has no heading `{heading}`")
    return match[1].strip()
