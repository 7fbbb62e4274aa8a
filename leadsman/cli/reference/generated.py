"""What is made from the parser of the command line: a page with every command and flag, and the man pages."""

from collections.abc import Mapping

from leadsman.cli.main import build_parser
from leadsman.cli.reference import pages, parser_tree
from leadsman.runtime.version import VERSION


def generated() -> Mapping[str, str]:
    """Path → text."""
    top = parser_tree.read(build_parser({}))
    man = {f"man/{name}": text for name, text in pages.man_pages(top, VERSION).items()}
    return {"cli.md": pages.markdown(top), **man}
