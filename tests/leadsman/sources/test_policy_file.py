from pathlib import Path

import pytest

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


@pytest.mark.parametrize("content", [BAD, "\xff", "x" * (1 << 20) + "x", None])
def test_a_bad_file_at_start_is_an_error_that_names_it(path, content) -> None:
    path.unlink() if content is None else path.write_bytes(content.encode("latin-1"))
    with pytest.raises(UnusableFile, match=r"policy\.yaml: "):
        PolicyFile(path, lambda: 1.0)


def test_a_bad_change_is_refused_by_file_and_path_and_the_last_good_one_stays_until_it_is_mended(path) -> None:
    file = PolicyFile(path, lambda: 1.0)
    path.write_text(BAD)
    for _ in range(2):
        file.poll()
        assert weight(file) == 9
        assert file.problem.text.startswith(f"{path}: $.scores.nearest.weight: ")
        assert value(file, "leadsman_policy_load_success") == 0
    path.write_text(STRICT)
    file.poll()
    assert (file.problem.text, value(file, "leadsman_policy_load_success")) == ("", 1)


def test_only_another_content_counts_as_a_reload(path) -> None:
    times = iter([1.0, 2.0])
    file = PolicyFile(path, lambda: next(times))
    path.write_text(STRICT)
    file.poll()
    assert value(file, "leadsman_policy_last_reload_timestamp_seconds") == 1
