"""docs/deploying.md says what the manifests do."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from leadsman.cli.scheduler_files import ConfigureSettings
from leadsman.state.report_timing import ReportTiming, timing_for_nodes
from tests.daemonset.conftest import EXCLUDED, PROFILES

if TYPE_CHECKING:
    from tests.daemonset.conftest import Find, Render

REPORT_BYTES = 14_400
"""Database bytes of one report whose values have the largest size, measured on etcd 3.5."""


@pytest.fixture
def text(root: Path) -> str:
    return (root / "docs/deploying.md").read_text()


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def test_every_path_in_it_exists(text: str, root: Path) -> None:
    paths = set(re.findall(r"(?<![\w/])daemonset/(?!leadsman-)[\w./-]*\w", text))
    assert {"daemonset/overlay", "daemonset/scheduler/kube-scheduler.yaml"} <= paths
    assert not [path for path in paths if not (root / path).exists()]


def test_it_and_the_overlay_name_every_component(text: str, root: Path) -> None:
    components = {folder.name for folder in (root / "daemonset/components").iterdir()}
    assert set(re.findall(r"^\| `([\w-]+)` \| .* \| .* \|$", text, re.MULTILINE)) >= components
    overlay = (root / "daemonset/overlay/kustomization.yaml").read_text()
    of_profiles = set(PROFILES["self-healing"])
    assert set(re.findall(r"# - \.\./components/([\w-]+)", overlay)) == components - of_profiles


def test_uncommenting_a_component_in_the_overlay_is_all_it_takes(root: Path) -> None:
    text = (root / "daemonset/overlay/kustomization.yaml").read_text()
    chosen = yaml.safe_load(text.replace("# - ../components/bind", "- ../components/bind"))
    assert chosen["components"] == ["../components/bind"]


@pytest.mark.integration
def test_the_overlay_with_every_component_builds_what_base_and_components_do(
    root: Path, render: "Render", tmp_path: Path
) -> None:
    everything = render("everything")
    shutil.copytree(root / "daemonset", tmp_path / "daemonset")
    overlay = tmp_path / "daemonset/overlay/kustomization.yaml"
    chosen = [line for line in overlay.read_text().splitlines() if not line.endswith(tuple(EXCLUDED))]
    text = "\n".join(chosen).replace("# - ../components/", "- ../components/")
    overlay.write_text(text.replace("../profiles/bounds", "../profiles/self-healing"))
    done = subprocess.run(["kubectl", "kustomize", str(overlay.parent)], capture_output=True, text=True, check=True)
    built = done.stdout.replace("registry.example.com/leadsman", "leadsman")
    assert sorted(yaml.safe_load_all(built), key=str) == sorted(everything, key=str)


@pytest.mark.integration
def test_its_patches_apply(text: str, root: Path, tmp_path: Path) -> None:
    if shutil.which("kubectl") is None:
        pytest.skip("no kubectl: apt-get install kubernetes-client")
    shutil.copytree(root / "daemonset", tmp_path / "daemonset")
    patches = [yaml.safe_load(block) for block in blocks(text, "yaml") if block.startswith("patches:")]
    assert len(patches) == 2
    for number, patch in enumerate(patches):
        overlay = tmp_path / f"patch{number}"
        overlay.mkdir()
        (overlay / "kustomization.yaml").write_text(yaml.safe_dump({"resources": ["../daemonset/overlay"], **patch}))
        subprocess.run(["kubectl", "kustomize", str(overlay)], capture_output=True, check=True)


@pytest.mark.integration
def test_the_sources_of_telemetry_that_the_docs_name_in_the_overlay_count(root: Path, tmp_path: Path) -> None:
    if shutil.which("kubectl") is None:
        pytest.skip("no kubectl: apt-get install kubernetes-client")
    shutil.copytree(root / "daemonset", tmp_path / "daemonset")
    overlay = tmp_path / "daemonset/overlay/kustomization.yaml"
    patch = blocks((root / "docs/telemetry-policies.md").read_text(), "yaml")[0]
    overlay.write_text(overlay.read_text().replace("# - ../components/telemetry", "- ../components/telemetry") + patch)
    done = subprocess.run(["kubectl", "kustomize", str(overlay.parent)], capture_output=True, text=True, check=True)
    maps = [each for each in yaml.safe_load_all(done.stdout) if each["kind"] == "ConfigMap"]
    (settings,) = [each for each in maps if each["metadata"]["name"].startswith("leadsman-settings-")]
    assert "prometheus=" in settings["data"]["LEADSMAN_TELEMETRY"]


@pytest.mark.integration
def test_its_replacement_makes_each_alert_s_runbook_a_link(text: str, root: Path, tmp_path: Path) -> None:
    if shutil.which("kubectl") is None:
        pytest.skip("no kubectl: apt-get install kubernetes-client")
    shutil.copytree(root / "daemonset", tmp_path / "daemonset")
    (links,) = [yaml.safe_load(block) for block in blocks(text, "yaml") if block.startswith("configMapGenerator:")]
    overlay = tmp_path / "daemonset/overlay"
    chosen = {"resources": ["../base"], "components": ["../components/prometheus"], **links}
    (overlay / "kustomization.yaml").write_text(yaml.safe_dump(chosen))
    done = subprocess.run(["kubectl", "kustomize", str(overlay)], capture_output=True, text=True, check=True)
    built = list(yaml.safe_load_all(done.stdout))
    (rules,) = [each for each in built if each["kind"] == "PrometheusRule"]
    alerts = [rule for group in rules["spec"]["groups"] for rule in group["rules"] if "alert" in rule]
    assert {each["alert"]: each["annotations"]["runbook"] for each in alerts} == {
        each["alert"]: f"https://docs.example.com/leadsman/runbooks.html#{each['alert'].lower()}" for each in alerts
    }
    assert "leadsman-docs" not in {each["metadata"]["name"] for each in built}, "it is for kustomize alone"


def test_its_scheduler_settings_are_the_file_s(text: str, scheduler: dict[str, Any]) -> None:
    (extender,) = scheduler["extenders"]
    known = {**scheduler, **extender}
    settings = text.partition("| setting |")[2].partition("\n\n")[0]
    for name, value in re.findall(r"^\| `(\w+)` \| ([\w ]+) \|", settings, re.MULTILINE):
        assert str(known[name]).lower() == value.replace(" ", ""), name


def test_kubeadm_s_own_configuration_leads_to_the_same_files(text: str) -> None:
    (block,) = [yaml.safe_load(block) for block in blocks(text, "yaml") if block.startswith("scheduler:")]
    assert block["scheduler"]["extraArgs"] == [{"name": "config", "value": ConfigureSettings("https://x", "").config}]
    (volume,) = block["scheduler"]["extraVolumes"]
    assert volume["hostPath"] == volume["mountPath"] == ConfigureSettings("https://x", "").folder


@pytest.mark.parametrize("nodes", [100, 1_000, 5_000, 20_000])
@pytest.mark.parametrize("build_name", ["files"], indirect=True)
def test_two_minutes_of_the_largest_reports_fit_the_quota(nodes: int, find: "Find") -> None:
    (initial,) = find("StatefulSet", "leadsman-etcd")["spec"]["template"]["spec"]["initContainers"]
    (quota,) = [int(a.partition("=")[2]) for a in initial["args"] if a.startswith("--quota-backend-bytes=")]
    reports = 120 * nodes / timing_for_nodes(ReportTiming(), nodes).push_interval_seconds
    assert reports * REPORT_BYTES < quota
