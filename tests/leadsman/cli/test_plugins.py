"""`leadsman plugins`: lists what is installed, and checks a plugin as the extender runs it."""

from pathlib import Path

import pytest

from leadsman.cli.main import main
from tests.installed_package import install

BROKEN = """
class Broken:
    api_version = 1

    def score(self, pod, nodes):
        return {nodes[0].name: nodes[0].hardware["cpu_busy_ratio"]}
"""

FAILING = """import time

class Measures:
    api_version = 1

    def collect(self, roots):
        raise OSError("the UPS gave no answer")

class Pays:
    api_version = 1

    def costs(self, pod):
        return {"frames": float(pod.annotations["frames"])}

class Owes(Pays):
    def costs(self, pod):
        return {"frames": -1.0}

class Slow:
    api_version = 1

    def score(self, pod, nodes):
        time.sleep(5.0)
        return {}

class Elsewhere(Slow):
    def score(self, pod, nodes):
        return {"nobody-asked": 1.0}
"""

ENTRY_POINTS = """
[leadsman.scores]
quiet = quiet:Quiet
broken = broken:Broken
slow = failing:Slow
elsewhere = failing:Elsewhere
[leadsman.metrics]
files = files:Files
ups = failing:Measures
[leadsman.rewards]
connect = connect:Connect
pays = failing:Pays
owes = failing:Owes
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = {name: Path(f"examples/plugins/{name}.py").read_text() for name in ("quiet", "files", "connect")}
    install(tmp_path, monkeypatch, ENTRY_POINTS, {"broken": BROKEN, "failing": FAILING, **ours})


def test_a_plugin_that_answers_is_good(installed: None, capsys: pytest.CaptureFixture[str]):
    assert main(["plugins", "check", "quiet"]) == 0
    assert capsys.readouterr().out == "quiet answers\n"


def test_a_metric_is_measured_on_this_machine(installed: None, capsys: pytest.CaptureFixture[str]):
    assert main(["plugins", "check", "files"]) == 0
    value, answers = capsys.readouterr().out.splitlines()
    assert value.startswith("leadsman_custom_files_used_ratio 0.")
    assert answers == "files answers"


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("ups", "ups (leadsman.metrics): OSError: the UPS gave no answer"),
        ("pays", "pays (leadsman.rewards): KeyError: 'frames'"),
        ("owes", "owes (leadsman.rewards): BadPlugin: 'frames' costs -1; a cost is a number above 0"),
        ("slow", "slow (leadsman.scores): no answer within its deadline of 50 ms"),
        ("elsewhere", "elsewhere (leadsman.scores): BadPlugin: it answers for 'nobody-asked'"),
    ],
)
def test_what_production_would_not_take_fails(
    installed: None, name: str, problem: str, capsys: pytest.CaptureFixture[str]
):
    assert main(["plugins", "check", name]) == 1
    assert problem in capsys.readouterr().out
