"""What a process decides on, wired as it was asked for."""

from pathlib import Path

import pytest

from leadsman.kube.access import ApiAccess
from leadsman.runtime.watched_files import UnusableFile
from leadsman.sources.delay.delay_sources import DelaySettings
from leadsman.sources.policy_file import PolicyFile
from leadsman.sources.telemetry.telemetry_sources import TelemetrySettings
from leadsman.sources.wiring import FollowedSources, SourceSettings
from tests.memory_store import MemoryStore

API = ApiAccess("http://127.0.0.1:1")


GOLDPINGER = DelaySettings(goldpinger_url="http://gp")
ON_API, WORKLOADS = {"watch workload pods", "watch nodes"}, {"pods", "replicasets", "jobs", "nodes"}


@pytest.mark.parametrize(
    ("asked", "loops", "waited_for"),
    [
        (SourceSettings(), set(), set()),
        (SourceSettings(api=API), ON_API, WORKLOADS),
        (SourceSettings(delays=GOLDPINGER), {"read delays from goldpinger"}, set()),
        (SourceSettings(telemetry=TelemetrySettings(("agents",), API)), {"watch telemetry policies"}, {"taspolicies"}),
        (
            SourceSettings(api=API, delays=GOLDPINGER, self_healing_namespace="leadsman"),
            {*ON_API, "read delays from goldpinger", "watch self-healing", "watch backups"},
            {*WORKLOADS, "configmaps", "placeholders"},
        ),
    ],
    ids=["nothing", "api", "goldpinger", "telemetry", "all of the API server"],
)
async def test_each_source_that_is_asked_for_is_followed_and_no_other(asked, loops, waited_for) -> None:
    always = {"watch the state", "reload the policy file", "fit estimates"}
    sources = FollowedSources(MemoryStore(), asked)
    tasks = dict(sources.tasks())
    for loop in tasks.values():
        loop.close()
    assert tasks.keys() == always | loops
    assert sources.listed_sources.keys() == {"the state in etcd"} | waited_for


def test_goldpinger_counts_before_static_files(tmp_path: Path) -> None:
    matrix, metadata = tmp_path / "matrix", tmp_path / "nodes"
    matrix.write_text("0")
    metadata.write_text('{"a": 0}')
    asked = SourceSettings(delays=DelaySettings(goldpinger_url="http://gp", matrix=matrix, metadata=metadata))
    assert [each.source for each in FollowedSources(MemoryStore(), asked).delays.sources] == ["goldpinger", "static"]


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
    file = PolicyFile(path, iter([1.0, 2.0]).__next__)
    path.write_text(BAD)
    for _ in range(2):
        file.poll()
        assert weight(file) == 9
        assert file.problem.text.startswith(f"{path}: $.scores.nearest.weight: ")
        assert value(file, "leadsman_policy_load_success") == 0
    path.write_text(STRICT)
    file.poll()
    assert (file.problem.text, value(file, "leadsman_policy_load_success")) == ("", 1)
    assert value(file, "leadsman_policy_last_reload_timestamp_seconds") == 1, "the content is the one from before"
