"""Completion: what bash and kubectl offer."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

BIN = Path(sys.executable).parent
ENVIRON = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"}


def bash(*words: str) -> list[str]:
    """What bash offers in place of the last word."""
    line = " ".join(map(shlex.quote, ("leadsman", *words[:-1]))) + f" {words[-1]}"
    script = f"""
        source <(leadsman completion bash)
        COMP_LINE={shlex.quote(line)} COMP_POINT={len(line)} COMP_TYPE=9 COMP_CWORD={len(words)}
        _python_argcomplete leadsman
        printf "%s\\n" "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(["bash", "--norc", "-c", script], capture_output=True, text=True, check=True, env=ENVIRON)
    assert done.stderr == ""
    return done.stdout.split()


def kubectl(*words: str) -> list[str]:
    command = [str(BIN / "kubectl_complete-leadsman"), *words]
    *offered, directive = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert directive == ":4", "kubectl offers no files of its own"
    return offered


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["expl"], ["explain"]),
        (["plan", "dr"], ["drain"]),
        (["nodes", "--wat"], ["--watch"]),
        (["nodes", "-o", ""], ["table", "wide", "json", "yaml"]),
        (["agent", "--log-level", "w"], ["warning"]),
        (["nodes", "--extender", "x"], []),
    ],
)
def test_bash_and_kubectl_offer_what_may_follow(words: list[str], expected: list[str]) -> None:
    assert bash(*words) == expected
    assert kubectl(*words) == expected


def test_paths_are_offered_where_a_flag_takes_one(tmp_path: Path) -> None:
    (tmp_path / "cluster.json").touch()
    assert bash("explain", "--snapshot", f"{tmp_path}/clu") == [f"{tmp_path}/cluster.json"]
