"""`leadsman plugins`: lists what is installed, and checks a plugin as the extender runs it."""

from pathlib import Path

import pytest

from leadsman.cli.main import main

BROKEN = """
class Broken:
    api_version = 1

    def score(self, pod, nodes):
        return {nodes[0].name: nodes[0].hardware["cpu_busy_ratio"]}
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken.py").write_text(BROKEN)
    (tmp_path / "quiet.py").write_text(Path("examples/plugins/quiet.py").read_text())
    info = tmp_path / "mine-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[leadsman.scores]\nquiet = quiet:Quiet\nbroken = broken:Broken\n")
    monkeypatch.syspath_prepend(str(tmp_path))


def test_it_lists_ours_and_those_of_other_packages(installed: None, capsys: pytest.CaptureFixture[str]):
    assert main(["plugins", "list"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["mine", "leadsman.scores", "quiet"] in rows
    assert ["leadsman", "leadsman.scores", "pressure"] in rows
    assert ["leadsman", "leadsman.filters", "delay"] in rows


def test_a_plugin_that_answers_is_good(installed: None, capsys: pytest.CaptureFixture[str]):
    assert main(["plugins", "check", "quiet"]) == 0
    assert capsys.readouterr().out == "quiet answers\n"


def test_a_plugin_that_counts_on_metrics_that_a_node_lacks_fails(installed: None, capsys: pytest.CaptureFixture[str]):
    assert main(["plugins", "check", "broken"]) == 1
    assert capsys.readouterr().out == "broken (leadsman.scores): KeyError: 'cpu_busy_ratio'\n"


def test_a_name_that_nothing_has_is_refused(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        main(["plugins", "check", "absent"])
    assert "no installed score or filter has the name 'absent'" in capsys.readouterr().err
