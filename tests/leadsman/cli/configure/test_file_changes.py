"""Real-world set-ups, each with what we make of it. tests/data/schedulers/README.md says where they come from."""

import re
from pathlib import Path, PurePosixPath

import pytest

from leadsman.cli.scheduler_files import ConfigureSettings, plan_changes
from leadsman.cli.yaml_editing import ConfigureError

SETUPS = Path(__file__).parents[3] / "data" / "schedulers"
SETTINGS = ConfigureSettings("https://10.96.0.17:9001", "leadsman-extender.leadsman.svc")


class Setup:
    """The files of a set-up by name, and what becomes of them. kube-scheduler's configuration is `config.yaml`."""

    def __init__(self, name):
        self.before = {path.name: path.read_text() for path in (SETUPS / name).glob("*.yaml")}
        self.expected = {path.name: path.read_text() for path in (SETUPS / name / "expected").glob("*.yaml")}
        (self.main,) = set(self.before) - {"config.yaml"}

    def changed(self, files=None, settings=SETTINGS):
        files = self.before if files is None else files
        found = plan_changes(self.main, files[self.main], lambda path: files.get(PurePosixPath(path).name), settings)
        return {PurePosixPath(change.path).name: change.after for change in found}


@pytest.fixture(params=sorted(folder.name for folder in SETUPS.iterdir() if folder.is_dir()))
def setup(request: pytest.FixtureRequest):
    return Setup(request.param)


def test_it_becomes_what_is_expected(setup) -> None:
    assert setup.changed() == setup.expected


def test_a_second_run_changes_nothing(setup) -> None:
    assert setup.changed(setup.before | setup.expected) == {}


def test_a_new_address_replaces_our_entry(setup) -> None:
    done = setup.before | setup.expected
    moved = setup.changed(done, ConfigureSettings("https://10.96.0.99:9001", SETTINGS.server_name))
    assert moved
    for text in moved.values():
        assert "10.96.0.17" not in text
        assert text.count("10.96.0.99") == 1


def test_managed_resources_are_a_choice(setup) -> None:
    assert not any("telemetry/scheduling" in text for text in setup.expected.values())
    managed = setup.changed(settings=ConfigureSettings(SETTINGS.url, SETTINGS.server_name, managed=True))
    assert [text.count("- name: telemetry/scheduling\n") for text in managed.values() if "telemetry" in text] == [1]


CONFIG = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
POD = "kind: Pod\nspec:\n  containers:\n  - name: s\n    command: [kube-scheduler{}]\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kind: Pod\nspec: {containers: [{name: x, image: nginx}]}\n", "neither a kube-scheduler's pod nor"),
        ("", "neither a kube-scheduler's pod nor"),
        ("a: b: c", "cannot be read as YAML"),
        ("[" * 5_000, "nested too deep"),
        (CONFIG.replace("/v1\n", "/v1beta1\n"), "v1beta1; want kubescheduler.config.k8s.io/v1 (v1beta2 and"),
        (CONFIG.replace("apiVersion: kubescheduler.config.k8s.io/v1\n", ""), "apiVersion: None; want"),
        (POD.format(", --config=/nowhere.yaml"), "does not come from a hostPath"),
        (POD.replace("[kube-scheduler{}]", '[sh, -c, "kube-scheduler --v=2"]'), "a shell starts kube-scheduler"),
        (
            POD.format(", --config=/etc/s/c.yaml")
            + "    volumeMounts: [{name: c, mountPath: /etc/s}]\n  volumes: [{name: c, hostPath: {path: /gone}}]\n",
            "/gone/c.yaml: kube-scheduler's configuration is not on this machine",
        ),
    ],
)
def test_what_we_cannot_change_rightly_is_refused_with_what_would_help(text, said: str) -> None:
    with pytest.raises(ConfigureError, match=re.escape(said)):
        plan_changes("f.yaml", text, lambda _: None, SETTINGS)
