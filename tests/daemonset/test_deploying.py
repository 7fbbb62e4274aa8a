"""docs/deploying.md says what the manifests do."""

import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from leadsman.state.report_timing import ReportTiming, timing_for_nodes
from tests.daemonset.conftest import EXCLUDED

if TYPE_CHECKING:
    from tests.daemonset.conftest import Find, Render

REPORT_BYTES = 14_400
"""Database bytes of one report whose values have the largest size, measured on etcd 3.5."""


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


@pytest.mark.parametrize("nodes", [100, 1_000, 5_000, 20_000])
@pytest.mark.parametrize("build_name", ["files"], indirect=True)
def test_two_minutes_of_the_largest_reports_fit_the_quota(nodes: int, find: "Find") -> None:
    (initial,) = find("StatefulSet", "leadsman-etcd")["spec"]["template"]["spec"]["initContainers"]
    (quota,) = [int(a.partition("=")[2]) for a in initial["args"] if a.startswith("--quota-backend-bytes=")]
    reports = 120 * nodes / timing_for_nodes(ReportTiming(), nodes).push_interval_seconds
    assert reports * REPORT_BYTES < quota
