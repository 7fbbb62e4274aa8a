"""Versions as Kubernetes' CEL has them, `semver("1.2.3-rc.1")` (semver.org 2.0.0). Pure."""

import re

SemverKey = tuple[int, int, int, bool, tuple[tuple[bool, int, str], ...]]
"""major, minor, patch, whether it is a release, and the identifiers of its pre-release."""

_NUMBER, _WORD = r"(0|[1-9][0-9]{0,17})", r"[0-9A-Za-z-]+"
_SEMVER = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-({_WORD}(?:\.{_WORD})*))?(?:\+{_WORD}(?:\.{_WORD})*)?", re.ASCII
)


class BadSemver(ValueError):
    """The text is no version. Says what it is and what is allowed."""


def parse(text: str) -> SemverKey:
    """A key that sorts as versions do: a number is below a word, a pre-release below its release. BadSemver."""
    match = _SEMVER.fullmatch(text) if len(text) <= 64 else None
    if match is None:
        raise BadSemver(f"{text[:64]!r} is no version; write one as in 1.2.3 or 1.2.3-rc.1")
    identifiers = match[4].split(".") if match[4] else []
    order = tuple((False, int(each), "") if each.isdecimal() else (True, 0, each) for each in identifiers)
    return int(match[1]), int(match[2]), int(match[3]), not identifiers, order
