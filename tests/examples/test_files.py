"""The example of a metric: the share of file handles that are open."""

from pathlib import Path
from typing import TYPE_CHECKING

from leadsman.plugin import HostRoots

if TYPE_CHECKING:
    from tests.examples.conftest import Example


def test_it_reads_the_share_of_the_roots_that_it_is_given(example: "Example", tmp_path: Path) -> None:
    (tmp_path / "sys/fs").mkdir(parents=True)
    (tmp_path / "sys/fs/file-nr").write_text("250\t0\t1000\n")
    assert [sample.value for sample in example("files").Files().collect(HostRoots(proc=str(tmp_path)))] == [0.25]


def test_this_machine_has_open_files_within_the_limit(example: "Example") -> None:
    (sample,) = example("files").Files().collect(HostRoots())
    assert 0 < sample.value < 1
