"""`leadsman policy check`: says what the rules of a file read, or why the file cannot be used."""

from pathlib import Path

import pytest

from leadsman.cli.main import main


def test_it_says_how_each_rule_is_split(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = tmp_path / "policy.yaml"
    file.write_text("rules: {scores: [{name: near, expression: 'node.zone == pod.labels.zone'}]}")
    assert main(["policy", "check", str(file)]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == [
        'score near: (node.zone == pod.labels["zone"])',
        "  of what the node reports: node.zone",
        '  of the pod: pod.labels["zone"]',
    ]


def test_a_file_that_cannot_be_used_is_refused_with_the_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = tmp_path / "policy.yaml"
    file.write_text("rules: {scores: [{name: near, expression: node.hot}]}")
    with pytest.raises(SystemExit) as caught:
        main(["policy", "check", str(file)])
    assert caught.value.code == 2
    assert f"{file}: $.rules.scores[0]: line 1, column 5: node has no field 'hot'" in capsys.readouterr().err
