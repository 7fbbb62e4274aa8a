import os
from pathlib import Path

import pytest

from agent.hardware import kernel_files
from agent.hardware.kernel_files import ABSENT_ERRNOS
from leadsman.plugin import SensorFault


def test_a_file_longer_than_one_chunk_is_whole(tmp_path: Path) -> None:
    (tmp_path / "long").write_text("x" * 200_000)
    assert len(kernel_files.read_file(str(tmp_path / "long"))) == 200_000


def test_bytes_that_are_no_utf8_do_not_fail(tmp_path: Path) -> None:
    (tmp_path / "label").write_bytes(b"T\xffmp")
    assert kernel_files.read_file(str(tmp_path / "label")) == "T\ufffdmp"


def test_malformed_text_is_named_and_shown(tmp_path: Path) -> None:
    (tmp_path / "count").write_text("seven")
    with pytest.raises(kernel_files.MalformedFile, match=r"count: 'seven': invalid literal"):
        kernel_files.parse_file(str(tmp_path / "count"), int)


@pytest.mark.parametrize("number", sorted(ABSENT_ERRNOS))
def test_what_the_kernel_does_not_have_is_none(number, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_files, "read_file", raising(number))
    assert kernel_files.parse_optional_file("/x", int) is None


@pytest.mark.parametrize("number", [1, 5, 13])
def test_what_it_refuses_or_fails_is_no_none(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """EPERM, EIO, EACCES."""
    monkeypatch.setattr(kernel_files, "read_file", raising(number))
    with pytest.raises(OSError, match=os.strerror(number)):
        kernel_files.parse_optional_file("/x", int)
    assert kernel_files.parse_file_or_fault("/x", int) == SensorFault(f"/x: {os.strerror(number)}")


def test_no_directory_has_no_names(tmp_path: Path) -> None:
    assert kernel_files.list_directory(str(tmp_path / "none")) == []


def test_reading_leaves_no_file_open(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1")
    before = os.listdir("/proc/self/fd")
    kernel_files.read_file(str(tmp_path / "a"))
    assert os.listdir("/proc/self/fd") == before


def raising(number):
    def read(path):
        raise OSError(number, os.strerror(number), path)

    return read
