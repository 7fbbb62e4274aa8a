"""Events about plugins on a real API server, written with the rights that the base gives the extender, and no more.

Where KUBEBUILDER_ASSETS names kube-apiserver.
"""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from extender.plugins.host import PluginEvents
from leadsman.kube import kubeconfig
from leadsman.kube.client import ApiClient
from leadsman.kube.objects import ObjectReference
from tests.testbed.kube_apiserver import KubeApiServer
from tests.waiting import until

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


async def test_the_extender_s_role_lets_it_say_which_plugin_is_off(api: KubeApiServer) -> None:
    async with ApiClient(kubeconfig.read_kubeconfig(api.kubeconfig(ACCOUNT))) as client:
        events = PluginEvents(client, ObjectReference("Pod", "leadsman", "leadsman-extender-0", "uid-1"))
        writing = asyncio.create_task(events.writer.run())
        events.plugin_changed("loops", "no answer within its deadline")
        events.plugin_changed("loops", "")
        await until(lambda: events.writer.written == 2, SECONDS)
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
    items = api.call("GET", "/apis/events.k8s.io/v1/namespaces/leadsman/events")["items"]
    said = sorted((each["reason"], each["type"], each["regarding"]["name"]) for each in items)
    pod = "leadsman-extender-0"
    assert said == [("PluginAnswers", "Normal", pod), ("PluginOff", "Warning", pod)]
