"""`make sbom`: CycloneDX files that say what is in each image. tests/e2e/image_run makes a whole release."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

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
        assert str(ROOT) not in text, "the folder it was made in makes it differ"
        assert all(each["licenses"] for each in components.values())
