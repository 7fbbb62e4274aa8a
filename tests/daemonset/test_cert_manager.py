"""What the chart gives cert-manager, held against the CRDs of its release 1.21.1. It does not run here."""

import contextlib
import lzma
import time
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest
import yaml

from tests.daemonset.conftest import Objects, Template
from tests.testbed.kube_apiserver import KubeApiServer

pytestmark = pytest.mark.integration

CRDS = Path(__file__).parents[1] / "data/cert_manager/crds.yaml.xz"
GROUP = "cert-manager.io"
NAMESPACES = "/api/v1/namespaces"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.fixture(scope="module")
def crds() -> Objects:
    return list(yaml.safe_load_all(lzma.decompress(CRDS.read_bytes())))


@pytest.fixture(scope="module")
def ours(template: Template) -> Objects:
    rendered = template("certificates.mode=cert-manager", "etcd.replicas=5")
    return [each for each in rendered if each["apiVersion"] == f"{GROUP}/v1"]


def test_a_ca_keeps_its_key_so_that_what_it_signed_stays_valid(ours: Objects) -> None:
    """Since 1.18 cert-manager makes a new key at each renewal unless it is told otherwise."""
    policies = {
        each["metadata"]["name"]: each["spec"]["privateKey"]["rotationPolicy"]
        for each in ours
        if each["kind"] == "Certificate" and each["spec"].get("isCA")
    }
    assert policies == {"leadsman-ca": "Never", "leadsman-etcd-ca": "Never"}


@pytest.mark.slow
def test_a_real_api_server_with_its_crds_takes_them(
    crds: Objects, ours: Objects, kubernetes_binaries: Path, tmp_path: Path
) -> None:
    """With strict field validation: CEL rules and defaults of the CRDs too."""
    with KubeApiServer(kubernetes_binaries, tmp_path / "kubernetes") as api:
        api.call("POST", NAMESPACES, {"metadata": {"name": "leadsman"}})
        for crd in crds:
            api.call("POST", DEFINITIONS, crd)
        for each in ours:
            wait_until_served(api, collection(each))
            api.call("POST", f"{collection(each)}?fieldValidation=Strict", each)
        listed = api.call("GET", collection({"kind": "Certificate"}))["items"]
        assert len(listed) == sum(each["kind"] == "Certificate" for each in ours)


def collection(each: dict[str, Any]) -> str:
    return f"/apis/{GROUP}/v1/namespaces/leadsman/{each['kind'].lower()}s"


def wait_until_served(api: KubeApiServer, path: str) -> None:
    """An API server serves a new kind a moment after its definition is there."""
    ends_at = time.monotonic() + 120
    while time.monotonic() < ends_at:
        with contextlib.suppress(HTTPError):
            api.call("GET", path)
            return
        time.sleep(0.1)
    pytest.fail(f"not served within 120 s: {path}")
