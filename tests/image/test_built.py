"""What the Dockerfile's builders make; tests/e2e/image_run runs each process from the images."""

import subprocess
from pathlib import Path

import pytest

from tests.dockerfile import environ_of, read_steps, stage
from tests.image.conftest import build

pytestmark = pytest.mark.artefact

ALL, AGENT = "packages", "agent-packages"


@pytest.fixture(scope="module", params=[ALL, AGENT])
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def image(name: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that stands for / of the image."""
    top = tmp_path_factory.mktemp(name)
    build(stage(read_steps(), name), top)
    return top


@pytest.fixture(scope="module")
def environ(image: Path, name: str) -> dict[str, str]:
    """What the image sets, with its folders under `image`."""
    image_sets = environ_of("agent" if name == AGENT else "")
    here = {key: value.replace("/opt/", f"{image}/opt/") for key, value in image_sets.items()}
    return here | {"PATH": f"{image}/opt/leadsman/bin:/usr/bin:/bin", "HOME": "/nonexistent"}


def test_another_command_in_the_agent_s_image_says_which_image_has_it(environ: dict[str, str], name: str) -> None:
    words = ("leadsman", "extender", "--help")
    done = subprocess.run(words, cwd="/", env=environ, capture_output=True, text=True, check=False)
    if name == AGENT:
        assert done.returncode == 2
        assert "leadsman extender: this installation has only the agent" in done.stderr
        assert "Traceback" not in done.stderr
    else:
        assert done.returncode == 0, done.stderr


def test_the_agent_s_packages_have_no_numpy(image: Path, name: str) -> None:
    (site_packages,) = image.glob("opt/leadsman/lib/python3*/site-packages")
    assert (site_packages / "numpy").exists() is (name == ALL)
