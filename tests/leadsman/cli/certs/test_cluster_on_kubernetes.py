"""`leadsman certs cluster` on a real kube-apiserver, with the rights of the chart's job and no other."""

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from leadsman.cli.certificates import MEMBER_SECRET, TRUST_CONFIG_MAP
from leadsman.cli.certs_actions import ETCD_CA_SECRET
from leadsman.cli.main import main
from tests.testbed.kube_apiserver import KubeApiServer

pytestmark = pytest.mark.slow

ACCOUNT = "system:serviceaccount:default:leadsman-certificates"
NAMES = ["leadsman-ca", "leadsman-extender-tls", "leadsman-scheduler-tls"]
OF_ETCD = [ETCD_CA_SECRET, MEMBER_SECRET]
WRITE = {"apiGroups": [""], "verbs": ["get", "create", "patch"]}
RULES = [
    {**WRITE, "resources": ["secrets"], "resourceNames": [*NAMES, *OF_ETCD]},
    {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [TRUST_CONFIG_MAP], "verbs": ["create", "patch"]},
]
"""As charts/leadsman/templates/certificates.yaml has them."""
RBAC = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"


@pytest.fixture(scope="module")
def cluster(kubernetes_binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubeApiServer]:
    folder = tmp_path_factory.mktemp("cluster") / "kubernetes"
    with KubeApiServer(kubernetes_binaries, folder, users={ACCOUNT: ()}) as one:
        one.call("POST", f"{RBAC}/roles", {"metadata": {"name": "job"}, "rules": RULES})
        subject = {"kind": "User", "name": ACCOUNT, "apiGroup": "rbac.authorization.k8s.io"}
        role = {"kind": "Role", "name": "job", "apiGroup": "rbac.authorization.k8s.io"}
        binding = {"metadata": {"name": "job"}, "roleRef": role, "subjects": [subject]}
        one.call("POST", f"{RBAC}/rolebindings", binding)
        yield one


def make(cluster: KubeApiServer, *more: str) -> int:
    return main(["certs", "cluster", "--namespace=default", f"--kubeconfig={cluster.kubeconfig(ACCOUNT)}", *more])


def secrets(cluster: KubeApiServer) -> dict[str, dict[str, bytes]]:
    found: list[dict[str, Any]] = cluster.call("GET", "/api/v1/namespaces/default/secrets")["items"]
    return {
        each["metadata"]["name"]: {key: base64.b64decode(text) for key, text in each["data"].items()} for each in found
    }


def test_missing_ones_are_made_the_rest_stay_and_what_ends_soon_is_renewed_by_the_same_ca(
    cluster: KubeApiServer,
) -> None:
    signed = {"leadsman-ca": NAMES[1:], ETCD_CA_SECRET: [MEMBER_SECRET]}
    assert make(cluster, "--days=90") == 0
    first = secrets(cluster)
    assert sorted(first) == sorted([*NAMES, *OF_ETCD])
    trust = cluster.call("GET", f"/api/v1/namespaces/default/configmaps/{TRUST_CONFIG_MAP}")["data"]
    assert trust == {"ca.crt": first[ETCD_CA_SECRET]["tls.crt"].decode()}

    assert make(cluster) == 0
    assert secrets(cluster) == first

    assert make(cluster, "--renew-before-days=100") == 0
    renewed = secrets(cluster)
    for authority, names in signed.items():
        assert renewed[authority] == first[authority]
        ca = x509.load_pem_x509_certificate(first[authority]["tls.crt"])
        for name in names:
            assert renewed[name]["tls.key"] != first[name]["tls.key"]
            assert first[name]["ca.crt"] == first[authority]["tls.crt"]
            for each in (first, renewed):
                x509.load_pem_x509_certificate(each[name]["tls.crt"]).verify_directly_issued_by(ca)
