"""The Dockerfile, read: there is no engine to build it with. test_image.py runs its steps by hand."""

import json
import re
from configparser import ConfigParser
from pathlib import Path

import pytest


@pytest.fixture
def steps(root: Path) -> list[tuple[str, str]]:
    """[(instruction, arguments)] in order, continuation lines joined."""
    text = re.sub(r"\\\n\s*", "", (root / "Dockerfile").read_text())
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(name, arguments) for name, _, arguments in (line.partition(" ") for line in lines)]


@pytest.fixture
def runtime(steps: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The steps of the last stage."""
    last = max(n for n, (name, _) in enumerate(steps) if name == "FROM")
    return steps[last:]


def copied(steps: list[tuple[str, str]]) -> list[str]:
    """Sources taken from the build context."""
    plain = [arguments.split()[:-1] for name, arguments in steps if name == "COPY" and "--from" not in arguments]
    return [source.rstrip("/") for sources in plain for source in sources]


def test_two_stages_start_from_one_base_that_an_operator_can_pin(steps: list[tuple[str, str]]) -> None:
    assert [arguments for name, arguments in steps if name == "FROM"] == [
        "${PYTHON_IMAGE} AS builder",
        "${PYTHON_IMAGE}",
    ]
    name, argument = steps[0]
    assert name == "ARG"
    assert re.fullmatch(r"PYTHON_IMAGE=python:3\.\d+-slim-\w+", argument)


def test_the_base_runs_a_python_that_setup_cfg_names(steps: list[tuple[str, str]], config: ConfigParser) -> None:
    version = re.search(r"python:(3\.\d+)", steps[0][1])
    assert version
    assert f"Programming Language :: Python :: {version[1]}" in config["metadata"]["classifiers"]


def test_every_source_exists_and_is_in_the_build_context(steps: list[tuple[str, str]], root: Path) -> None:
    ignored = (root / ".dockerignore").read_text().splitlines()
    for source in copied(steps):
        assert f"!{source}" in ignored
        assert (root / source).exists(), source


def test_nothing_else_is_in_the_build_context(steps: list[tuple[str, str]], root: Path) -> None:
    lines = [line for line in (root / ".dockerignore").read_text().splitlines() if not line.startswith("#")]
    assert lines[0] == "*"
    assert {line[1:] for line in lines if line.startswith("!")} == set(copied(steps))


def test_every_package_of_setup_cfg_is_copied(steps: list[tuple[str, str]], config: ConfigParser) -> None:
    packages = config["options.packages.find"]["include"].split()
    assert {package.rstrip("*") for package in packages} <= set(copied(steps))


def test_the_process_is_leadsman_itself_and_not_root(runtime: list[tuple[str, str]]) -> None:
    run = dict(runtime)
    assert run["USER"] == "10001:10001"
    assert json.loads(run["ENTRYPOINT"]) == ["leadsman"]
    assert json.loads(run["CMD"]) == ["--help"]


def test_a_read_only_root_is_enough(runtime: list[tuple[str, str]]) -> None:
    assert "PYTHONDONTWRITEBYTECODE=1" in dict(runtime)["ENV"]
    assert not {"RUN", "VOLUME", "WORKDIR"} & {name for name, _ in runtime}


def test_labels_carry_the_version_of_setup_cfg(runtime: list[tuple[str, str]], config: ConfigParser) -> None:
    assert ("ARG", f"VERSION={config['metadata']['version']}") in runtime
    labels = dict(runtime)["LABEL"]
    assert 'org.opencontainers.image.version="${VERSION}"' in labels
    assert 'org.opencontainers.image.licenses="Apache-2.0"' in labels


@pytest.fixture
def config(root: Path) -> ConfigParser:
    parsed = ConfigParser()
    parsed.read(root / "setup.cfg")
    return parsed
