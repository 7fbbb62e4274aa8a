import os
from pathlib import Path

import pytest

from leadsman.decision.policy import Policy
from leadsman.runtime.watched_files import UnusableFile
from leadsman.sources.policy_file import PolicyFile

STRICT = "scores: {nearest: {weight: 9}}\n"
BAD = "scores: {nearest: {weight: heavy}}\n"


@pytest.fixture
def path(tmp_path: Path):
    file = tmp_path / "policy.yaml"
    file.write_text(STRICT)
    return file


def weight(file):
    return file.current.scores.nearest.weight


def value(file, name):
    (found,) = [family.samples[0].value for family in file.families() if family.name == name]
    return found


def test_without_a_file_the_defaults_hold() -> None:
    file = PolicyFile(None, lambda: 1.0)
    file.poll()
    assert (file.current, file.problem.text) == (Policy(), "")


def test_the_file_is_read_at_start(path) -> None:
    assert weight(PolicyFile(path, lambda: 1.0)) == 9


@pytest.mark.parametrize("content", [BAD, "\xff", "x" * (1 << 20) + "x", None])
def test_a_bad_file_at_start_is_an_error_that_names_it(path, content) -> None:
    path.unlink() if content is None else path.write_bytes(content.encode("latin-1"))
    with pytest.raises(UnusableFile, match=r"policy\.yaml: "):
        PolicyFile(path, lambda: 1.0)


def test_a_change_is_read(path) -> None:
    file = PolicyFile(path, lambda: 1.0)
    path.write_text(STRICT.replace("9", "8"))
    file.poll()
    assert weight(file) == 8


def test_a_change_of_the_same_size_and_time_under_another_inode_is_read(path) -> None:
    """A ConfigMap is updated by swapping a symlink to another directory."""
    file, before = PolicyFile(path, lambda: 1.0), path.stat()
    swapped = path.with_name("new.yaml")
    swapped.write_text(STRICT.replace("9", "8"))
    os.utime(swapped, ns=(before.st_atime_ns, before.st_mtime_ns))
    path.unlink()
    path.symlink_to(swapped)
    file.poll()
    assert weight(file) == 8


def test_a_bad_change_is_refused_by_file_and_path_and_the_last_good_one_stays(path) -> None:
    file = PolicyFile(path, lambda: 1.0)
    path.write_text(BAD)
    file.poll()
    assert weight(file) == 9
    assert file.problem.text.startswith(f"{path}: $.scores.nearest.weight: ")
    assert value(file, "leadsman_policy_load_success") == 0


def test_a_refusal_lasts_until_the_file_is_mended(path) -> None:
    file = PolicyFile(path, lambda: 1.0)
    path.write_text(BAD)
    file.poll()
    file.poll()
    assert value(file, "leadsman_policy_load_success") == 0
    path.write_text(STRICT)
    file.poll()
    assert (file.problem.text, value(file, "leadsman_policy_load_success")) == ("", 1)


def test_a_refusal_is_logged_once(path, caplog: pytest.LogCaptureFixture) -> None:
    file = PolicyFile(path, lambda: 1.0)
    path.write_text(BAD)
    for _ in range(3):
        file.poll()
    assert [record.levelname for record in caplog.records] == ["ERROR"]


def test_a_file_that_goes_away_and_comes_back_is_read_again(path) -> None:
    file = PolicyFile(path, lambda: 1.0)
    path.unlink()
    file.poll()
    assert (weight(file), "No such file" in file.problem.text) == (9, True)
    path.write_text(STRICT.replace("9", "8"))
    file.poll()
    assert (weight(file), file.problem.text) == (8, "")


def test_the_same_file_put_back_is_good_again(path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    file, away = PolicyFile(path, lambda: 1.0), path.with_name("away")
    path.rename(away)
    file.poll()
    away.rename(path)
    file.poll()
    assert (weight(file), file.problem.text) == (9, "")
    assert "the policy file is valid again" in caplog.text


def test_only_another_content_counts_as_a_reload(path) -> None:
    times = iter([1.0, 2.0])
    file = PolicyFile(path, lambda: next(times))
    path.write_text(STRICT)
    file.poll()
    assert value(file, "leadsman_policy_last_reload_timestamp_seconds") == 1
