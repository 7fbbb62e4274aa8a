"""The static files of a running extender: read again by content, the last good ones kept."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from leadsman.runtime import watched_files
from leadsman.runtime.watched_files import UnusableFile
from leadsman.sources.delay import matrix
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


def test_a_changed_matrix_is_used(files: Files) -> None:
    source = files.opened()
    files.matrix.write_text("0 2.5\n2.5 0\n")
    source.poll()
    assert (ms(source), source.problem.text) == (2.5, "")


def test_a_bad_change_is_named_and_the_last_good_matrix_stays(files: Files) -> None:
    source = files.opened()
    files.matrix.write_text("0 x\n1 0\n")
    source.poll()
    assert f'{files.matrix} with {files.metadata}: matrix row 0 (line 1), column 1: got "x"' in source.problem.text
    assert ms(source) == 1


def test_a_problem_stands_until_the_files_change(files: Files) -> None:
    source = files.opened()
    files.matrix.write_text("0 x\n1 0\n")
    source.poll()
    source.poll()
    assert source.problem.text
    files.matrix.write_text("0 1\n1 0\n")
    source.poll()
    assert source.problem.text == ""


def test_two_files_that_change_one_after_the_other_are_used_when_both_fit(files: Files) -> None:
    source = files.opened()
    files.matrix.write_text("0 2 3\n2 0 3\n3 3 0\n")
    source.poll()
    assert "row 2 has no node" in source.problem.text
    assert ms(source) == 1
    files.metadata.write_text('{"a": 0, "b": 1, "c": 2}')
    source.poll()
    assert (ms(source), source.problem.text) == (2, "")


def test_a_file_that_vanished_is_named_and_used_again_when_it_is_back(files: Files) -> None:
    source = files.opened()
    files.matrix.rename(files.matrix.with_suffix(".away"))
    source.poll()
    assert f"{files.matrix}: No such file" in source.problem.text
    assert ms(source) == 1
    files.matrix.with_suffix(".away").rename(files.matrix)
    source.poll()
    assert source.problem.text == ""


def test_a_swapped_symlink_of_the_same_size_and_time_is_seen(files: Files, tmp_path: Path) -> None:
    """As a ConfigMap changes."""
    for name, text in (("one", "0 1\n1 0\n"), ("two", "0 2\n2 0\n")):
        (tmp_path / name).write_text(text)
        os.utime(tmp_path / name, (1, 1))
    files.matrix.unlink()
    files.matrix.symlink_to(tmp_path / "one")
    source = files.opened()
    files.matrix.unlink()
    files.matrix.symlink_to(tmp_path / "two")
    source.poll()
    assert ms(source) == 2


def test_the_same_content_again_makes_no_new_view(files: Files) -> None:
    """What was computed from it stays good."""
    source = files.opened()
    before = source.current
    os.utime(files.matrix, (1, 1))
    source.poll()
    assert source.current is before


def test_a_file_too_large_is_refused(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrix, "MAX_FILE_BYTES", 4)
    with pytest.raises(UnusableFile, match="larger than 4 bytes"):
        files.opened()


def test_a_slip_at_the_start_is_raised(files: Files) -> None:
    files.metadata.write_bytes(b"\xff")
    with pytest.raises(UnusableFile, match="can't decode byte 0xff"):
        files.opened()


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
