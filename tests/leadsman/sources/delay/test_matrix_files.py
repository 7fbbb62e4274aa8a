"""The static files of a running extender: read again by content, the last good ones kept."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from leadsman.runtime import watched_files
from leadsman.sources.delay.matrix import MatrixFiles

NODES = '{"a": 0, "b": 1}'


class Files:
    def __init__(self, folder: Path) -> None:
        self.matrix, self.metadata = folder / "matrix.txt", folder / "nodes.json"
        self.matrix.write_text("0 1\n1 0\n")
        self.metadata.write_text(NODES)

    def opened(self) -> MatrixFiles:
        return MatrixFiles(self.matrix, self.metadata)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def ms(source: MatrixFiles) -> float:
    return source.current.row("a").forward["b"]


def test_two_files_that_change_one_after_the_other_are_used_when_both_fit(files: Files) -> None:
    source = files.opened()
    files.matrix.write_text("0 2 3\n2 0 3\n3 3 0\n")
    source.poll()
    assert "row 2 has no node" in source.problem.text
    assert ms(source) == 1
    files.metadata.write_text('{"a": 0, "b": 1, "c": 2}')
    source.poll()
    assert (ms(source), source.problem.text) == (2, "")


async def test_a_running_source_follows_its_files(
    files: Files, monkeypatch: pytest.MonkeyPatch, until: Callable[..., Awaitable[None]]
) -> None:
    monkeypatch.setattr(watched_files, "POLL_SECONDS", 0.01)
    source = files.opened()
    task = asyncio.create_task(source.run())
    files.matrix.write_text("0 3\n3 0\n")
    await until(lambda: ms(source) == 3)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
