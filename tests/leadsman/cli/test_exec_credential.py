"""A kubeconfig with an exec plugin, as EKS, GKE and AKS make them, against a server that asks for its credential."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from leadsman.cli import extender, main
from leadsman.kube.access import ApiAccess, ApiAccessError
from leadsman.kube.client import ApiClient
from leadsman.kube.errors import NotFound, Unauthorized
from leadsman.kube.objects import Pod
from leadsman.kube.resources import PODS
from leadsman.testbed.fake_api_server import FakeApiServer

LATER = "2099-01-01T00:00:00Z"


class Plugin:
    """A script that prints what `status` holds when it is run."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.script = folder, folder / "plugin"
        self.script.write_text('#!/bin/sh\n[ "$1" = get-token ] || exit 3\necho run >> runs\ncat status || exit 4\n')
        self.script.chmod(0o755)
        (folder / "runs").touch()

    @property
    def runs(self) -> int:
        return len((self.folder / "runs").read_text().split())

    def gives(self, **status: str) -> None:
        credential = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}
        (self.folder / "status").write_text(json.dumps(credential))

    def kubeconfig(self, url: str, **cluster: str) -> str:
        """The plugin runs in the file's folder, as it is named relative to it."""
        command = {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": "./plugin",
            "args": ["get-token"],
            "interactiveMode": "Never",
        }
        config: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "cloud",
            "contexts": [{"name": "cloud", "context": {"cluster": "cloud", "user": "cloud", "namespace": "web"}}],
            "clusters": [{"name": "cloud", "cluster": {"server": url, **cluster}}],
            "users": [{"name": "cloud", "user": {"exec": command}}],
        }
        path = self.folder / "config"
        path.write_text(json.dumps(config))
        return str(path)


@pytest.fixture
def plugin(tmp_path: Path) -> Plugin:
    return Plugin(tmp_path)


def access(kubeconfig: str) -> ApiAccess:
    """As `leadsman extender` reads it."""
    arguments = ["extender", "--plain-http", "--kubeconfig", kubeconfig]
    found = extender.settings(main.build_parser({}, "extender").parse_args(arguments)).api
    assert found
    return found


async def is_answered(client: ApiClient) -> bool:
    """NotFound is an answer: the server knows us."""
    with pytest.raises((NotFound, Unauthorized)) as error:
        await client.get(PODS.path("a", "b"), Pod)
    return error.type is NotFound


async def test_the_plugin_s_token_is_shown_to_the_server_and_made_once(plugin: Plugin) -> None:
    plugin.gives(token="from-the-plugin", expirationTimestamp=LATER)
    async with FakeApiServer(token="from-the-plugin") as api:
        found = await asyncio.to_thread(access, plugin.kubeconfig(api.url))
        async with ApiClient(found) as client:
            assert [await is_answered(client) for _ in range(3)] == [True, True, True]
    assert found.namespace == "web"
    assert plugin.runs == 1


def test_without_the_extra_the_error_names_it(plugin: Plugin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kubernetes.client", None)
    with pytest.raises(ApiAccessError, match=r"needs the package kubernetes.*pip install 'leadsman\[kubeconfig\]'"):
        access(plugin.kubeconfig("http://127.0.0.1:1"))
