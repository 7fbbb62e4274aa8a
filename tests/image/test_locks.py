"""The locks of `make lock`: what setup.cfg asks for is in them, in its range, and whatever that needs itself."""

import re
import sys
import tomllib
from configparser import ConfigParser
from importlib.metadata import requires
from pathlib import Path

import grimp
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from image.trim_agent import COMMANDS_OF_AGENT, ROOMS
from tests.dockerfile import ROOT, read_steps


@pytest.fixture(params=["agent", "build", "leadsman"])
def lock(request: pytest.FixtureRequest) -> Path:
    return ROOT / f"image/{request.param}.txt"


def locked(lock: Path) -> dict[str, Requirement]:
    """Canonical name → requirement, without hashes."""
    lines = re.findall(r"^(\S.*?) \\$", lock.read_text(), re.MULTILINE)
    return {canonicalize_name(each.name): each for each in map(Requirement, lines)}


def asked(name: str) -> list[Requirement]:
    if name == "build":
        lines = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    else:
        config = ConfigParser()
        config.read(ROOT / "setup.cfg")
        extras = config["options.extras_require"]
        lines = [*config["options"]["install_requires"].split(), *extras["setup"].split(), *extras["dra"].split()]
    found = [Requirement(line) for line in lines]
    return [each for each in found if name != "agent" or each.name in names_in("agent.in")]


def names_in(file: str) -> set[str]:
    lines = (ROOT / "image" / file).read_text().splitlines()
    return {line for line in lines if not line.startswith("#")}


def test_it_satisfies_what_setup_cfg_and_pyproject_ask_for(lock: Path) -> None:
    versions, requirements = locked(lock), asked(lock.stem)
    assert requirements
    for each in requirements:
        (pin,) = versions[canonicalize_name(each.name)].specifier
        assert pin.operator == "=="
        assert each.specifier.contains(pin.version), f"{each} is locked as {pin.version}: make lock"


def test_it_holds_what_its_packages_need(lock: Path) -> None:
    """By the metadata of the releases that are installed here, which are the locked ones or near them."""
    versions = locked(lock)
    requirements = [Requirement(line) for name in versions for line in requires(name) or ()]
    needed = {canonicalize_name(each.name) for each in requirements if not each.marker or each.marker.evaluate()}
    assert needed - names_in("excludes.txt") <= set(versions)


@pytest.fixture(scope="module")
def agent_modules() -> set[str]:
    """All that `leadsman agent` may import, directly, through another module or inside a function."""
    graph = grimp.build_graph("agent", "controller", "extender", "leadsman", include_external_packages=True)
    starts = {"leadsman.cli.agent", "leadsman.cli.main"}
    return starts.union(*(graph.find_upstream_modules(start) for start in starts))


EXTRAS = {"kubernetes", "yaml"}
"""What reads a kubeconfig, which no pod has. The first is in no image: the extra `kubeconfig`."""


def test_the_agent_s_lock_has_every_package_that_its_code_imports(agent_modules: set[str]) -> None:
    ours = {"agent", "controller", "extender", "leadsman"}
    others = {name.partition(".")[0] for name in agent_modules} - ours - set(sys.stdlib_module_names) - EXTRAS
    assert others >= {"aiohttp", "msgspec", "psutil"}
    assert {canonicalize_name(name) for name in others} <= set(locked(ROOT / "image/agent.txt"))


def test_no_room_that_is_taken_out_of_the_agent_s_image_is_imported_by_it(agent_modules: set[str]) -> None:
    rooms = {room.replace("/", ".") for room in ROOMS}
    assert {"leadsman.decision", "controller"} <= rooms
    assert not [name for name in agent_modules if any(name == room or name.startswith(f"{room}.") for room in rooms)]
    commands = {name.split(".")[2] for name in agent_modules if name.startswith("leadsman.cli.")}
    assert commands - {"main"} <= {name.removesuffix(".py") for name in COMMANDS_OF_AGENT}


def test_every_package_that_pip_installs_has_a_hash_in_a_lock() -> None:
    installs = [arguments for name, arguments in read_steps() if name == "RUN" and " install " in arguments]
    assert len(installs) == 5
    for each in installs:
        assert "--require-hashes -r image/" in each or "--no-deps /wheels/" in each
