"""The overlay as docs/deploying.md has users edit it."""

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.daemonset.conftest import EXCLUDED, Render


@pytest.mark.integration
def test_the_overlay_with_every_component_builds_what_base_and_components_do(
    root: Path, render: Render, tmp_path: Path
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
