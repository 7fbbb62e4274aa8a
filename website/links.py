"""Where the links of our documents lead on the site."""

import posixpath

PROJECT_PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
"""They become project/NAME."""


def site_path(source: str, link: str) -> str:
    """Where the link of a page leads, as a path of the site."""
    in_repository = source.removeprefix("project/") if source.startswith("project/") else f"docs/{source}"
    target = posixpath.normpath(posixpath.join(posixpath.dirname(in_repository), link))
    return f"project/{target}" if target in PROJECT_PAGES else target.removeprefix("docs/")
