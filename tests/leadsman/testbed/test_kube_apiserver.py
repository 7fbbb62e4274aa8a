"""The real kube-apiserver of the testbed, where there is one."""

import os
import urllib.error
from pathlib import Path

import pytest

from leadsman.testbed import kube_apiserver
from leadsman.testbed.kube_apiserver import KubeApiServer, KubeApiServerMissing


@pytest.mark.parametrize("environ", [{}, {"KUBEBUILDER_ASSETS": ""}])
def test_without_the_variable_the_text_names_it(environ) -> None:
    with pytest.raises(KubeApiServerMissing, match="neither KUBEBUILDER_ASSETS nor E2E_BIN is set"):
        kube_apiserver.find_assets(environ)


def test_a_folder_without_the_binaries_is_named(tmp_path: Path) -> None:
    with pytest.raises(KubeApiServerMissing, match=r"KUBEBUILDER_ASSETS=.*: there is no kube-apiserver in it"):
        kube_apiserver.find_assets({"KUBEBUILDER_ASSETS": str(tmp_path)})


def test_the_folder_of_a_whole_cluster_s_programs_has_one_too(tmp_path: Path) -> None:
    for name in ("kube-apiserver", "etcd"):
        (tmp_path / name).touch()
    assert kube_apiserver.find_assets({"E2E_BIN": str(tmp_path)}) == tmp_path
    with pytest.raises(KubeApiServerMissing, match="KUBEBUILDER_ASSETS=/nowhere"):
        kube_apiserver.find_assets({"KUBEBUILDER_ASSETS": "/nowhere", "E2E_BIN": str(tmp_path)})


@pytest.mark.slow
def test_it_starts_with_rbac_and_users_and_leaves_nothing_behind(kubernetes_binaries: Path, tmp_path: Path) -> None:
    with KubeApiServer(kubernetes_binaries, tmp_path / "kubernetes", users={"nobody": ()}) as api:
        assert api.call("GET", "/api/v1/namespaces/default")["metadata"]["name"] == "default"
        with pytest.raises(urllib.error.HTTPError, match="403"):
            api.call("GET", "/api/v1/pods", user="nobody")
        pid = api.pid
    assert not (tmp_path / "kubernetes").exists()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
