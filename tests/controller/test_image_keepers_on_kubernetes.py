"""Images are kept warm on a real kube-apiserver of Kubernetes 1.36 or newer, with the rights of the component backups.

No kubelet pulls them here: whether a node's runtime mounts images is the node's matter, and room is held all the same.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from controller import image_keepers
from controller.self_healing import SelfHealing
from controller.settings import SelfHealingSettings
from leadsman.kube import kubeconfig
from leadsman.kube.client import ApiClient
from leadsman.kube.event_writer import EventWriter
from leadsman.planning.backups.coverage import CoverageState
from leadsman.runtime.token_bucket import TokenBucket
from tests.controller.followed import tools
from tests.controller.rights import granted_rights, used_rights
from tests.controller.test_node_health_on_kubernetes import ACCOUNT
from tests.controller.test_self_healing import NODES, AllNear, inputs_from, verdict
from tests.controller.test_self_healing_on_kubernetes import (
    PLACEHOLDERS,
    SHOP,
    audit_log,
    bind_placeholders,
    cluster,
    put_web,
)
from tests.testbed.kube_apiserver import KubeApiServer

if TYPE_CHECKING:
    from tests.conftest import Until

pytestmark = pytest.mark.slow

__all__ = ["audit_log", "cluster"]

Step = Callable[[], Any]


@pytest.fixture(autouse=True)
def new_enough(cluster: KubeApiServer) -> None:
    minor = int(cluster.call("GET", "/version")["minor"].rstrip("+"))
    if minor < image_keepers.FIRST_MINOR:
        pytest.skip(f"the API server is of Kubernetes 1.{minor}; image volumes need 1.{image_keepers.FIRST_MINOR}")


def keepers(api: KubeApiServer) -> list[dict[str, Any]]:
    """Those that stay: no kubelet ends the others."""
    listed = api.call("GET", f"{PLACEHOLDERS}?labelSelector=leadsman.dev/warm-images")["items"]
    return [each for each in listed if "deletionTimestamp" not in each["metadata"]]


def images(keeper: dict[str, Any]) -> set[str]:
    return {volume["image"]["reference"] for volume in keeper["spec"]["volumes"]}


@asynccontextmanager
async def self_healing(api: KubeApiServer, warm_images: int, until: "Until") -> AsyncIterator[Step]:
    """Yields `step`, which plans, writes and binds, and says whether every bounded pod is covered."""
    async with ApiClient(kubeconfig.read(api.kubeconfig(ACCOUNT))) as client:
        settings = SelfHealingSettings(enabled=True, warm_images=warm_images)
        recorder, view = EventWriter(client, TokenBucket(100, 100), "test"), AllNear()
        verdicts = {name: verdict(name) for name in NODES}
        healing = SelfHealing(tools(client, recorder, lambda: inputs_from(view)), settings, lambda: verdicts)
        following = asyncio.create_task(healing.cluster.run())
        await until(lambda: healing.cluster.loaded)

        async def step() -> bool:
            healing.backups.hurry()
            await healing.backups.turn()
            await asyncio.to_thread(bind_placeholders, api)
            states = {each.state for each in healing.backups.status.coverage.values()}
            return states == {CoverageState.COVERED}

        yield step
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


async def reached(step: Step, condition: Callable[[], bool]) -> None:
    """Steps until every bounded pod is covered and the condition is true."""
    async with asyncio.timeout(30):
        covered = False
        while not (covered and condition()):
            covered = await step()
            await asyncio.sleep(0.05)


async def test_a_new_image_is_kept_by_another_pod_and_no_placeholder_is_touched(
    cluster: KubeApiServer,
    audit_log: Path,
    until: "Until",
) -> None:
    put_web(cluster, "web-1")
    async with self_healing(cluster, 3, until) as step:
        await reached(step, lambda: len(keepers(cluster)) == 1)
        [first] = keepers(cluster)
        assert images(first) == {"none"}
        assert {mount["name"] for mount in first["spec"]["containers"][0]["volumeMounts"]} == {"image-0"}
        assert first["spec"]["priorityClassName"] == "leadsman-placeholder"
        held = _placeholders(cluster)
        pod = cluster.call("GET", f"{SHOP}/web-1")
        pod["spec"]["containers"][0]["image"] = "example.com/web:2"
        cluster.call("PUT", f"{SHOP}/web-1", pod)
        await reached(step, lambda: [images(each) for each in keepers(cluster)] == [{"example.com/web:2"}])
        assert _placeholders(cluster) == held
    assert used_rights(audit_log) <= granted_rights("cluster-model", "backups")


async def test_what_ended_in_a_keeper_s_place_is_removed_before_it_is_tried_again(
    cluster: KubeApiServer,
    until: "Until",
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(image_keepers, "RETRY_SECONDS", 0.1)
    put_web(cluster, "web-1")
    async with self_healing(cluster, 3, until) as step:
        await reached(step, lambda: len(keepers(cluster)) == 1)
        [evicted] = keepers(cluster)
        failed = {"status": {"phase": "Failed", "reason": "Evicted"}}
        cluster.call("PATCH", f"{PLACEHOLDERS}/{evicted['metadata']['name']}/status", failed)
        uid = evicted["metadata"]["uid"]
        await reached(step, lambda: [each["metadata"]["uid"] == uid for each in keepers(cluster)] == [False])


async def test_an_older_api_server_keeps_none_and_says_so(
    cluster: KubeApiServer,
    until: "Until",
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(image_keepers, "FIRST_MINOR", 10_000)
    put_web(cluster, "web-1")
    with caplog.at_level(logging.WARNING):
        async with self_healing(cluster, 3, until) as step:
            await reached(step, lambda: "image volumes need 1.10000" in caplog.text)
    assert keepers(cluster) == []


def _placeholders(api: KubeApiServer) -> list[tuple[str, Any]]:
    """UID and requests of each."""
    listed = api.call("GET", f"{PLACEHOLDERS}?labelSelector=leadsman.dev/placeholder")["items"]
    return [(each["metadata"]["uid"], each["spec"]["containers"][0]["resources"]) for each in listed]
