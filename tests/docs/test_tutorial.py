"""docs/tutorial.md, as far as it can be tried without kind: files, commands, what the chart makes of its values."""

import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from leadsman.cli.main import COMMANDS, build_parser
from leadsman.kube.names import DELAY_LABEL_PREFIX

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/tutorial.md").read_text()
COMMAND_LINES = [line for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()]


def load(name: str) -> Any:
    return yaml.safe_load((ROOT / "examples/kind" / name).read_text())


def node_names() -> set[str]:
    """As kind calls the containers: NAME-control-plane, NAME-worker, NAME-worker2, …"""
    cluster = load("cluster.yaml")
    workers = [node for node in cluster["nodes"] if node["role"] == "worker"]
    suffixes = ["", *map(str, range(2, len(workers) + 1))]
    return {f"{cluster['name']}-control-plane", *(f"{cluster['name']}-worker{suffix}" for suffix in suffixes)}


@pytest.fixture(scope="module")
def objects() -> list[dict[str, Any]]:
    """What the tutorial's `helm install` deploys."""
    if shutil.which("helm") is None:
        pytest.skip("no helm: python -m tests.kubernetes_tools /usr/local/bin")
    (install,) = [line for line in COMMAND_LINES if line.startswith("helm install ")]
    words = ["template" if word == "install" else word for word in shlex.split(install) if word != "--create-namespace"]
    # Without a cluster to ask, helm takes a version of its own for the cluster's.
    command = [*words, "--kube-version", "1.36.2"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return [each for each in yaml.safe_load_all(done.stdout) if each]


def test_every_node_that_it_names_is_one_of_the_cluster_s() -> None:
    named = set(re.findall(r"\bleadsman-(?:control-plane|worker\d?)\b", PAGE))
    assert named <= node_names()
    assert {"leadsman-worker", "leadsman-worker3"} <= named


def test_the_pods_are_bounded_to_a_node_of_the_cluster_and_choose_our_scheduler() -> None:
    web = load("web.yaml")
    kubernetes_validate.validate(web, "1.36", strict=True)
    template = web["spec"]["template"]
    (label,) = [key for key in template["metadata"]["labels"] if key.startswith(DELAY_LABEL_PREFIX)]
    assert label.removeprefix(DELAY_LABEL_PREFIX) in node_names()
    assert f'{label}: "{template["metadata"]["labels"][label]}"' in PAGE
    assert template["spec"]["schedulerName"] == "leadsman-scheduler"


def test_every_leadsman_command_is_one_with_flags_that_it_has() -> None:
    lines = [line.partition("leadsman ")[2] for line in COMMAND_LINES if line.startswith("kubectl leadsman ")]
    assert len(lines) >= 4
    for line in lines:
        words = shlex.split(re.sub(r"\$\(.*\)", "web-0", line))
        assert words[0] in COMMANDS
        build_parser({"LEADSMAN_EXTENDER": "kubectl"}, words[0]).parse_args(words)


@pytest.mark.integration
def test_the_chart_deploys_what_the_page_waits_for_from_the_images_that_it_loads(objects: list[dict[str, Any]]) -> None:
    deployed = {f"{each['kind'].lower()}/{each['metadata']['name']}" for each in objects}
    waited_for = {line.split()[-1] for line in COMMAND_LINES if line.startswith("kubectl -n leadsman rollout status ")}
    assert waited_for
    assert waited_for <= deployed
    (load_images,) = [line for line in COMMAND_LINES if line.startswith("kind load docker-image ")]
    built = {shlex.split(line)[3] for line in COMMAND_LINES if line.startswith("docker build ")}
    ours = {image for image in images(objects) if image.startswith("leadsman")}
    assert ours == built == set(shlex.split(load_images)[3:5])


def images(objects: list[dict[str, Any]]) -> set[str]:
    pods = [each["spec"]["template"]["spec"] for each in objects if "template" in each.get("spec", {})]
    return {container["image"] for pod in pods for container in pod.get("initContainers", []) + pod["containers"]}


@pytest.mark.integration
def test_the_scheduler_that_is_deployed_is_the_one_that_pods_choose(objects: list[dict[str, Any]]) -> None:
    (configuration,) = [each for each in objects if each["metadata"]["name"] == "leadsman-scheduler-configuration"]
    (profile,) = yaml.safe_load(configuration["data"]["scheduler.yaml"])["profiles"]
    assert profile["schedulerName"] == load("web.yaml")["spec"]["template"]["spec"]["schedulerName"]


@pytest.mark.integration
def test_every_object_is_valid_and_the_controller_writes_the_events_of_the_page(objects: list[dict[str, Any]]) -> None:
    for each in objects:
        kubernetes_validate.validate(each, "1.36", strict=True)
    (controller,) = [
        each for each in objects if (each["kind"], each["metadata"]["name"]) == ("Deployment", "leadsman-controller")
    ]
    assert "--placement-events" in controller["spec"]["template"]["spec"]["containers"][0]["args"]
