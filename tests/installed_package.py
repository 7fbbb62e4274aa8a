"""A package with plugins that is installed as far as Python can tell, here and in the processes that plugins run in."""

from collections.abc import Mapping
from pathlib import Path

import pytest


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, entry_points: str, modules: Mapping[str, str]) -> None:
    """The package `mine`. modules: name → source."""
    for name, source in modules.items():
        (folder / f"{name}.py").write_text(source)
    info = folder / "mine-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(entry_points)
    monkeypatch.syspath_prepend(str(folder))


PICKY = """
class Picky:
    api_version = 1
    on_failure = "pass"

    def refuse(self, pod, nodes):
        return {node.name: "it does not like the node" for node in nodes if node.name == "b"}
"""


def install_picky(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A filter that refuses node b. The policy that names it."""
    install(folder, monkeypatch, "[leadsman.filters]\npicky = picky:Picky\n", {"picky": PICKY})
    return "plugins: {filters: [{name: picky, deadline_ms: 100}]}\n"
