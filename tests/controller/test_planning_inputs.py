"""What the controller's planners ask, as the process wires it: the plugins that the policy names, and what is reserved
of devices for pods that are not bound yet."""

import asyncio
from pathlib import Path

import pytest

from controller.run import ControllerParts
from controller.settings import ControllerSettings
from leadsman.cluster.model import Cluster, cluster_of
from leadsman.decision.view import Views
from leadsman.kube.access import ApiAccess
from leadsman.planning.moves.search import Search
from leadsman.sources.telemetry.telemetry_sources import TelemetrySettings
from leadsman.state.etcd_http import EtcdAccess
from tests.installed_package import install_picky
from tests.leadsman.planning.moves.movable_pods import node, pods_of
from tests.testbed.background import running
from tests.waiting import until

NOBODY = "http://127.0.0.1:1"


def parts_of(policy: Path | None = None, *, devices: bool = False) -> ControllerParts:
    """A controller whose etcd does not answer."""
    telemetry = TelemetrySettings(("agents",), ApiAccess(NOBODY))
    return ControllerParts(ControllerSettings(EtcdAccess((NOBODY,)), telemetry, "one", policy=policy, devices=devices))


def cluster() -> Cluster:
    """Pod web on node a may go to b, and to c where b is refused."""
    return cluster_of([node("a"), node("b"), node("c", 4)], [pods_of(1)("web", "a")])


async def new_place(parts: ControllerParts) -> str:
    situation = await parts.tools.situation(cluster(), Views())
    places = Search(situation, lambda *_: False).places(situation.cluster.pods["web"])
    return await asyncio.to_thread(next, places, "")


async def test_no_planner_is_offered_a_node_that_a_plugin_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("{}")
    assert await new_place(parts_of(policy)) == "b"
    policy.write_text(install_picky(tmp_path, monkeypatch))
    parts = parts_of(policy)
    async with running(parts.plugins.run()):
        await until(lambda: parts.plugins.plugins and parts.plugins.plugins[0].state == "active")
        assert await new_place(parts) == "c"
    parts.plugins.close()


async def test_no_planner_gives_away_a_device_while_nobody_says_what_is_reserved() -> None:
    parts = parts_of(devices=True)
    inputs = (await parts.tools.situation(cluster(), Views())).inputs
    await parts.store.close()
    assert "etcd does not say what bandwidth and devices are reserved" in inputs.devices.reservations_problem
