"""`python -m leadsman.cli.reference DIR`: writes the reference of the command line and its man pages into a folder.

Nothing of it is committed, so it cannot be out of date: `make reference` calls it.
"""

import sys
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

from leadsman.cli.main import build_parser
from leadsman.cli.reference import pages, parser_tree


def generated() -> Mapping[str, str]:
    """Path → text."""
    top = parser_tree.read(build_parser({}))
    man = {f"man/{name}": text for name, text in pages.man_pages(top, version("leadsman")).items()}
    return {"cli.md": pages.markdown(top), **man}


def main(folder: Path) -> int:
    for name, text in generated().items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
