import os
from pathlib import Path

import pytest

from agent.hardware import kernel_files
from leadsman.plugin import SensorFault


def test_a_file_longer_than_one_chunk_is_whole(tmp_path: Path) -> None:
    (tmp_path / "long").write_text("x" * 200_000)
    assert len(kernel_files.read_file(str(tmp_path / "long"))) == 200_000


@pytest.mark.parametrize("number", [1, 5, 13])
def test_what_it_refuses_or_fails_is_no_none(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """EPERM, EIO, EACCES."""
    monkeypatch.setattr(kernel_files, "read_file", raising(number))
    with pytest.raises(OSError, match=os.strerror(number)):
        kernel_files.parse_optional_file("/x", int)
    assert kernel_files.parse_file_or_fault("/x", int) == SensorFault(f"/x: {os.strerror(number)}")


def test_reading_leaves_no_file_open(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1")
    before = os.listdir("/proc/self/fd")
    kernel_files.read_file(str(tmp_path / "a"))
    assert os.listdir("/proc/self/fd") == before


def raising(number):
    def read(path):
        raise OSError(number, os.strerror(number), path)

    return read
