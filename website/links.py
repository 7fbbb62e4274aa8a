"""Finds where the links of our documents lead on the site."""

import posixpath

PROJECT_PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "project/CONTRIBUTING.md",
    "CHANGELOG.md": "project/CHANGELOG.md",
    "SECURITY.md": "project/SECURITY.md",
}
"""Maps each document at the repository's root to its page: the README is the site's front page."""

_SOURCES = {page: source for source, page in PROJECT_PAGES.items()}


def site_path(source: str, link: str) -> str:
    """Says where the link of a page leads, as a path of the site."""
    in_repository = _SOURCES.get(source, f"docs/{source}")
    target = posixpath.normpath(posixpath.join(posixpath.dirname(in_repository), link))
    return PROJECT_PAGES.get(target, target.removeprefix("docs/"))
