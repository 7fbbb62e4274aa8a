import logging
from pathlib import Path

import pytest

from leadsman.runtime.watched_files import UnusableFile
from leadsman.sources.delay.delay_sources import NodeNames
from leadsman.state.records import Identity
from leadsman.state.snapshot import NodeState, Snapshot

SNAPSHOT = Snapshot(
    {"edge-1": NodeState(identity=Identity("pod-1", 1, "10.0.0.1")), "edge-2": NodeState()},
)


def test_agents_say_which_address_is_which_node() -> None:
    assert NodeNames(lambda: SNAPSHOT)() == {"10.0.0.1": "edge-1"}


def test_the_file_counts_before_the_agents(tmp_path: Path) -> None:
    file = tmp_path / "names.json"
    file.write_text('{"10.0.0.1": "other", "gp-2": "edge-2"}')
    assert NodeNames(lambda: SNAPSHOT, file)() == {"10.0.0.1": "other", "gp-2": "edge-2"}


def test_a_changed_file_is_used_and_a_bad_one_is_not(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "names.json"
    file.write_text('{"a": "edge-1"}')
    names = NodeNames(Snapshot, file)
    file.write_text('{"b": "edge-1"}')
    assert names() == {"b": "edge-1"}
    file.write_text('{"b": 1}')
    with caplog.at_level(logging.ERROR):
        assert names() == names() == {"b": "edge-1"}
    assert len(caplog.records) == 1
    assert "names.json: $[...]: expected str, got int" in names.problem.text


def test_a_slip_at_the_start_is_raised(tmp_path: Path) -> None:
    with pytest.raises(UnusableFile, match="No such file"):
        NodeNames(Snapshot, tmp_path / "none.json")
