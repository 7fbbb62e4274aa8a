"""The sidecar that lets a team to the page: its objects, made by kustomize and by the chart."""

import shutil
import subprocess
from typing import Any

import pytest
import yaml

from extender.api.requests import LOOPBACK_HOSTS
from leadsman.cli.main import build_parser
from tests import kubernetes_schemas
from tests.daemonset.conftest import MANIFESTS, ROOT, Objects, helm, objects_named, run_template
from tests.daemonset.test_rights import violations

__all__ = ["helm"]

FOLDER = ROOT / "examples/shared-page"


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> Objects:
    """The base with the example."""
    if shutil.which("kubectl") is None:
        pytest.skip("no kubectl: apt-get install kubernetes-client")
    copy = tmp_path_factory.mktemp("shared-page")
    shutil.copytree(MANIFESTS / "base", copy / "base")
    shutil.copytree(FOLDER, copy / "shared-page")
    (copy / "overlay").mkdir()
    wanted = {"resources": ["../base"], "components": ["../shared-page"]}
    (copy / "overlay/kustomization.yaml").write_text(yaml.safe_dump(wanted))
    done = subprocess.run(["kubectl", "kustomize", copy / "overlay"], capture_output=True, text=True, check=True)
    return list(yaml.safe_load_all(done.stdout))


@pytest.fixture(scope="module")
def pod(objects: Objects) -> dict[str, Any]:
    (extender,) = objects_named(objects, "Deployment", "leadsman-extender")
    spec: dict[str, Any] = extender["spec"]["template"]["spec"]
    return spec


def proxy_of(pod: dict[str, Any]) -> dict[str, Any]:
    (proxy,) = [each for each in pod["containers"] if each["name"] == "oauth2-proxy"]
    return dict(proxy)


def test_its_objects_are_valid_and_its_pod_is_restricted(objects: Objects, pod: dict[str, Any]) -> None:
    for each in objects:
        kubernetes_schemas.validate(each, "1.37")
    assert violations(pod) == []


def test_the_proxy_asks_the_page_where_it_listens_and_by_a_name_that_it_answers_for(pod: dict[str, Any]) -> None:
    arguments = proxy_of(pod)["args"]
    listens = build_parser({}, only="extender").parse_args(["extender", "--plain-http"]).api_listen
    assert f"--upstream=http://{listens}" in arguments
    assert listens.rpartition(":")[0] in LOOPBACK_HOSTS
    assert "--pass-host-header=false" in arguments


def test_the_service_leads_to_the_proxy(objects: Objects, pod: dict[str, Any]) -> None:
    (service,) = objects_named(objects, "Service", "leadsman-page")
    (policy,) = objects_named(objects, "NetworkPolicy", "leadsman-page")
    (extender,) = objects_named(objects, "Deployment", "leadsman-extender")
    labels = extender["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()
    assert policy["spec"]["podSelector"]["matchLabels"].items() <= labels.items()
    (target,) = service["spec"]["ports"]
    assert target["targetPort"] in [port["name"] for port in proxy_of(pod)["ports"]]


def test_the_chart_takes_the_same_container(helm: str) -> None:
    (sidecar,) = yaml.safe_load((FOLDER / "sidecar.yaml").read_text())["spec"]["template"]["spec"]["containers"]
    done = run_template(helm, values={"extender": {"sidecars": [sidecar]}})
    (extender,) = objects_named(list(filter(None, yaml.safe_load_all(done.stdout))), "Deployment", "leadsman-extender")
    assert proxy_of(extender["spec"]["template"]["spec"]) == sidecar
