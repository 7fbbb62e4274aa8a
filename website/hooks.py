"""Hooks into mkdocs: adds pages from the code and from the root of the repository, and mends links that leave docs/."""

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

from website.__main__ import reference
from website.links import PROJECT_PAGES, site_path

ROOT = Path(__file__).parents[1]

_LINK = re.compile(r"(\]\()((?![a-z]+:)[^)#\s]+)(#[^)\s]*)?\)")


def on_files(files: Any, config: Any) -> Any:
    pages = {page: (ROOT / source).read_text() for source, page in PROJECT_PAGES.items()}
    pages |= {f"reference/{path}": text for path, text in reference().items()}
    for path, text in pages.items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, files: Any, **_: Any) -> str:
    """Leads links to the site's page where there is one; a link to a file of the repository becomes its name."""
    served = set(files.src_uris)

    def rewritten(found: re.Match[str]) -> str:
        target = site_path(page.file.src_uri, found[2])
        if target not in served:
            return f"{found[1]}#)"
        relative = posixpath.relpath(target, posixpath.dirname(page.file.src_uri) or ".")
        return f"{found[1]}{relative}{found[3] or ''})"

    return re.sub(r"\[([^\]]*)\]\(#\)", r"\1", _LINK.sub(rewritten, markdown))
