"""The Dockerfile, read: there is no engine to build it with. test_image.py runs its steps by hand."""

import json
import re
from configparser import ConfigParser

import pytest


@pytest.fixture
def steps(root):
    """[(instruction, arguments)] in order, continuation lines joined."""
    text = re.sub(r"\\\n\s*", "", (root / "Dockerfile").read_text())
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [tuple(line.split(" ", 1)) for line in lines]


@pytest.fixture
def runtime(steps):
    """The steps of the last stage."""
    last = max(n for n, (name, _) in enumerate(steps) if name == "FROM")
    return steps[last:]


def copied(steps):
    """Sources taken from the build context."""
    plain = [arguments.split()[:-1] for name, arguments in steps if name == "COPY" and "--from" not in arguments]
    return [source.rstrip("/") for sources in plain for source in sources]


def test_two_stages_start_from_one_base_that_an_operator_can_pin(steps):
    assert [arguments for name, arguments in steps if name == "FROM"] == [
        "${PYTHON_IMAGE} AS builder",
        "${PYTHON_IMAGE}",
    ]
    name, argument = steps[0]
    assert name == "ARG"
    assert re.fullmatch(r"PYTHON_IMAGE=python:3\.\d+-slim-\w+", argument)


def test_the_base_runs_a_python_that_setup_cfg_names(steps, config):
    version = re.search(r"python:(3\.\d+)", steps[0][1])
    assert version
    assert f"Programming Language :: Python :: {version[1]}" in config["metadata"]["classifiers"]


def test_every_source_exists_and_is_in_the_build_context(steps, root):
    ignored = (root / ".dockerignore").read_text().splitlines()
    for source in copied(steps):
        assert f"!{source}" in ignored
        assert (root / source).exists(), source


def test_nothing_else_is_in_the_build_context(steps, root):
    lines = [line for line in (root / ".dockerignore").read_text().splitlines() if not line.startswith("#")]
    assert lines[0] == "*"
    assert {line[1:] for line in lines if line.startswith("!")} == set(copied(steps))


def test_every_package_of_setup_cfg_is_copied(steps, config):
    packages = config["options.packages.find"]["include"].split()
    assert {package.rstrip("*") for package in packages} <= set(copied(steps))


def test_the_process_is_leadsman_itself_and_not_root(runtime):
    run = dict(runtime)
    assert run["USER"] == "10001:10001"
    assert json.loads(run["ENTRYPOINT"]) == ["leadsman"]
    assert json.loads(run["CMD"]) == ["--help"]


def test_a_read_only_root_is_enough(runtime):
    assert "PYTHONDONTWRITEBYTECODE=1" in dict(runtime)["ENV"]
    assert not {"RUN", "VOLUME", "WORKDIR"} & {name for name, _ in runtime}


def test_labels_carry_the_version_of_setup_cfg(runtime, config):
    assert ("ARG", f"VERSION={config['metadata']['version']}") in runtime
    labels = dict(runtime)["LABEL"]
    assert 'org.opencontainers.image.version="${VERSION}"' in labels
    assert 'org.opencontainers.image.licenses="Apache-2.0"' in labels


@pytest.fixture
def config(root):
    parsed = ConfigParser()
    parsed.read(root / "setup.cfg")
    return parsed
