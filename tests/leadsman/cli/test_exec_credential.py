"""A kubeconfig with an exec plugin, as EKS, GKE and AKS make them, against a server that asks for its credential."""

import asyncio
import json
import sys
from pathlib import Path

import pytest

from leadsman.cli import extender, main
from leadsman.kube.access import ApiAccess, ApiAccessError
from leadsman.kube.client import ApiClient
from leadsman.kube.errors import NotFound
from leadsman.kube.objects import Pod
from leadsman.kube.resources import PODS
from tests.leadsman.kube.test_kubeconfig import config as kubeconfig_of
from tests.testbed.scripted_api_server import FakeApiServer


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    """A script that prints the credential, and a line into `runs`."""
    status = {"token": "from-the-plugin", "expirationTimestamp": "2099-01-01T00:00:00Z"}
    credential = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}
    (tmp_path / "credential").write_text(json.dumps(credential))
    script = tmp_path / "plugin"
    script.write_text('#!/bin/sh\n[ "$1" = get-token ] || exit 3\necho run >> runs\ncat credential || exit 4\n')
    script.chmod(0o755)
    return script


def access(plugin: Path, url: str) -> ApiAccess:
    """As `leadsman extender` reads it. The plugin runs in the file's folder, as it is named relative to it."""
    command = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": f"./{plugin.name}",
        "args": ["get-token"],
        "interactiveMode": "Never",
    }
    plugin.with_name("config").write_text(json.dumps(kubeconfig_of({"server": url}, {"exec": command})))
    arguments = ["extender", "--plain-http", "--kubeconfig", str(plugin.with_name("config"))]
    found = extender.settings(main.build_parser({}, "extender").parse_args(arguments)).api
    assert found
    return found


async def test_the_plugin_s_token_is_shown_to_the_server_and_made_once(plugin: Path) -> None:
    async with FakeApiServer(token="from-the-plugin") as api:
        found = await asyncio.to_thread(access, plugin, api.url)
        async with ApiClient(found) as client:
            for _ in range(3):
                with pytest.raises(NotFound):  # The server knows us, and not the pod.
                    await client.get(PODS.path("a", "b"), Pod)
    assert found.namespace == "web"
    assert plugin.with_name("runs").read_text() == "run\n"


def test_without_the_extra_the_error_names_it(plugin: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kubernetes.client", None)
    with pytest.raises(ApiAccessError, match=r"needs the package kubernetes.*pip install 'leadsman\[kubeconfig\]'"):
        access(plugin, "http://127.0.0.1:1")
