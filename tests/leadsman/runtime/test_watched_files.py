import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from pathlib import Path

import pytest

from leadsman.runtime import watched_files
from leadsman.runtime.problem_log import ProblemLog
from leadsman.runtime.watched_files import WatchedFiles


@pytest.fixture
def paths(tmp_path: Path) -> tuple[Path, Path]:
    one, other = tmp_path / "one", tmp_path / "other"
    one.write_text("1")
    other.write_text("2")
    return one, other


def watch(paths: Sequence[Path]) -> WatchedFiles[tuple[int, ...]]:
    problem = ProblemLog(logging.getLogger("files"), "cannot use the numbers", "the numbers are valid again")
    return WatchedFiles(paths, lambda contents: tuple(map(int, contents)), problem, 100)


def test_a_link_swapped_to_a_file_of_the_same_size_and_time_is_read(paths: tuple[Path, Path], tmp_path: Path) -> None:
    for path in paths:
        os.utime(path, (1, 1))
    link = tmp_path / "link"
    link.symlink_to(paths[0])
    files = watch([link])
    link.unlink()
    link.symlink_to(paths[1])
    assert files.poll()
    assert files.current == (2,)


def test_bad_content_is_parsed_once_and_its_problem_lasts_until_the_files_change(
    paths: tuple[Path, Path], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    files = watch(paths)
    paths[0].write_text("x")
    files.poll()
    files.poll()
    assert files.problem.text
    assert len(caplog.records) == 1
    paths[0].write_text("1")
    assert not files.poll(), "this content is in use already"
    assert files.problem.text == ""


def test_a_file_that_vanished_is_named_and_tried_again_until_it_is_back(paths: tuple[Path, Path]) -> None:
    files = watch(paths)
    paths[0].rename(paths[0].with_name("away"))
    files.poll()
    assert files.problem.text.startswith(f"{paths[0]}: No such file or directory; ")
    paths[0].with_name("away").rename(paths[0])
    files.poll()
    assert (files.problem.text, files.current) == ("", (1, 2))


async def test_each_new_value_is_yielded_and_a_bad_one_is_not(
    paths: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, until: Callable[..., Awaitable[None]]
) -> None:
    monkeypatch.setattr(watched_files, "POLL_SECONDS", 0.001)
    files = watch(paths)
    async with asyncio.timeout(60), aclosing(files.changes()) as changes:
        paths[0].write_text("10")
        assert await anext(changes) == (10, 2)
        paths[0].write_text("bad")
        following = asyncio.ensure_future(anext(changes))
        await until(lambda: files.problem.text)
        paths[0].write_text("100")
        assert await following == (100, 2)
