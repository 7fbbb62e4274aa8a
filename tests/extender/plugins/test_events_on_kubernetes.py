"""Events about plugins on a real API server, written with the rights that the base gives the extender, and no more.

Where KUBEBUILDER_ASSETS names kube-apiserver.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from extender.plugins.events import PluginEvents
from leadsman.kube import kubeconfig
from leadsman.kube.client import ApiClient
from leadsman.kube.objects import ObjectReference
from tests.testbed.kube_apiserver import KubeApiServer

if TYPE_CHECKING:
    from tests.conftest import Until

pytestmark = pytest.mark.slow

ACCOUNT = "system:serviceaccount:leadsman:leadsman-extender"
RIGHTS = Path(__file__).parents[3] / "daemonset/base/serviceaccounts.yaml"
NAME, SECONDS = "leadsman-extender-events", 60.0


@pytest.fixture
def api(kubernetes_binaries: Path, tmp_path: Path) -> Iterator[KubeApiServer]:
    with KubeApiServer(kubernetes_binaries, tmp_path / "kubernetes", users={ACCOUNT: ()}) as one:
        one.call("POST", "/api/v1/namespaces", {"metadata": {"name": "leadsman"}})
        for each in yaml.safe_load_all(RIGHTS.read_text()):
            if each["metadata"]["name"] == NAME:
                path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/leadsman/{each['kind'].lower()}s"
                one.call("POST", path, each)
        yield one


@asynccontextmanager
async def events_on(api: KubeApiServer, namespace: str) -> AsyncIterator[PluginEvents]:
    """Written until the block ends, about a pod of the namespace."""
    async with ApiClient(kubeconfig.read(api.kubeconfig(ACCOUNT))) as client:
        one = PluginEvents(client, ObjectReference("Pod", namespace, "leadsman-extender-0", "uid-1"))
        tasks = [asyncio.create_task(loop) for loop in one.loops().values()]
        yield one
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def events_of(api: KubeApiServer, namespace: str) -> list[Any]:
    items: list[Any] = api.call("GET", f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")["items"]
    return [(each["reason"], each["type"], each["regarding"]["name"]) for each in items]


async def test_the_extender_s_role_lets_it_say_which_plugin_is_off(api: KubeApiServer, until: "Until") -> None:
    async with events_on(api, "leadsman") as events:
        events.plugin_changed("loops", "no answer within its deadline")
        events.plugin_changed("loops", "")
        await until(lambda: events.writer and events.writer.written == 2, SECONDS)
    pod = "leadsman-extender-0"
    assert sorted(events_of(api, "leadsman")) == [("PluginAnswers", "Normal", pod), ("PluginOff", "Warning", pod)]


async def test_in_another_namespace_the_role_lets_it_write_none(api: KubeApiServer, until: "Until") -> None:
    async with events_on(api, "default") as events:
        events.plugin_changed("loops", "no answer within its deadline")
        await until(lambda: events.writer and events.writer.dropped == 1, SECONDS)
    assert "PluginOff" not in {reason for reason, *_ in events_of(api, "default")}
