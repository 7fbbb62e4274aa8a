"""A package with plugins that is installed as far as Python can tell, here and in the processes that plugins run in."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from extender.plugins import process

PATIENCE_SECONDS = 30.0


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

class Fond:
    api_version = 1

    def score(self, pod, nodes):
        return {node.name: float(node.name == "b") for node in nodes}
"""


def install_picky(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A filter that refuses node b, and a score that likes no other. The policy that names the filter."""
    points = "[leadsman.filters]\npicky = picky:Picky\n[leadsman.scores]\nfond = picky:Fond\n"
    install(folder, monkeypatch, points, {"picky": PICKY})
    # A busy machine is no fault of theirs.
    monkeypatch.setattr(process, "ALL_PLUGINS_SECONDS", PATIENCE_SECONDS)
    monkeypatch.setattr(
        process.Plugin, "deadline_seconds", property(lambda _: PATIENCE_SECONDS, lambda *_: None), raising=False
    )
    return "plugins: {filters: [{name: picky, deadline_ms: 100}]}\n"
