"""`make sbom`, CycloneDX files that say what is in each image, and `make release-files`, which has them.

In one file, since both write into build/.
"""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from release.__main__ import current_version
from tests.dockerfile import ROOT
from tests.image.test_locks import locked

pytestmark = [
    pytest.mark.artefact,
    pytest.mark.skipif(not shutil.which("make"), reason="no make: apt-get install make"),
]


@pytest.fixture(scope="module")
def sboms() -> dict[str, str]:
    """The lock's name → its SBOM."""
    subprocess.run(["make", "sbom"], cwd=ROOT, check=True, capture_output=True)
    return {name: (ROOT / f"build/sbom/{name}.cdx.json").read_text() for name in ("leadsman", "agent")}


def test_they_are_valid_cyclonedx(sboms: dict[str, str]) -> None:
    for text in sboms.values():
        version = SchemaVersion.from_version(json.loads(text)["specVersion"])
        assert JsonStrictValidator(version).validate_str(text) is None


def test_each_names_the_lock_s_packages_and_leadsman_with_version_and_licence(sboms: dict[str, str]) -> None:
    for name, text in sboms.items():
        components = {each["name"].lower().replace("_", "-"): each for each in json.loads(text)["components"]}
        expected = {
            package: next(iter(each.specifier)).version
            for package, each in locked(Path(ROOT, f"image/{name}.txt")).items()
            if not each.marker or each.marker.evaluate()
        }
        versions = {package: each["version"] for package, each in components.items()}
        assert versions.pop("leadsman")
        assert versions == expected
        assert all(each["licenses"] for each in components.values())


@pytest.mark.skipif(not shutil.which("helm"), reason="no helm: python -m tests.kubernetes_tools /usr/local/bin")
def test_a_release_s_files_are_the_wheel_the_chart_the_sboms_and_notes_with_their_checksums() -> None:
    subprocess.run(["make", "release-files"], cwd=ROOT, check=True, capture_output=True)
    folder, now = ROOT / "build/release", current_version(ROOT)
    subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=folder, check=True, capture_output=True)
    listed = {line.split()[1] for line in (folder / "SHA256SUMS").read_text().splitlines()}
    wheel, chart = f"leadsman-{now}-py3-none-any.whl", f"leadsman-{now.replace('.dev', '-dev')}.tgz"
    assert listed == {wheel, chart, f"leadsman-{now}.cdx.json", f"agent-{now}.cdx.json", "NOTES.md"}
    command = ["helm", "template", chart]
    assert "kind: DaemonSet" in subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout
