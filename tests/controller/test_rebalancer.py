"""Plans of re-balancing on a fake API server: when they are handed over, and what the next one remembers."""

from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from controller.keeper import DocumentObject, HealedCluster
from controller.moves import Rebalancer
from controller.settings import SelfHealingSettings
from leadsman.kube.client import ApiClient
from leadsman.planning.rebalance_plan import RebalanceSettings
from leadsman.planning.replacement_plan import ReplacementMemory, ReplacementPlan
from leadsman.published.moves import MOVE_PLAN, Departure, HandedOverPlan, MovePlan, MoverState, PlanOrigin, PlanRequest
from leadsman.state.metric_names import CPU_PRESSURE
from leadsman.state.snapshot import Snapshot
from tests.controller.followed import Told, followed, inputs_of, owned_pod, put_nodes, tools
from tests.leadsman.decision import make
from tests.testbed.scripted_api_server import FakeApiServer


def last_plan(**state: Any) -> ReplacementPlan:
    return ReplacementPlan((), ReplacementMemory(MoverState(**state)))


class Balanced:
    """A pod on edge-1, which is under pressure, beside an idle edge-2."""

    def __init__(self, client: ApiClient) -> None:
        self.now, self.object = 0.0, DocumentObject(client, "leadsman", MOVE_PLAN)
        self.carrier = SimpleNamespace(plan=last_plan())
        nodes = {name: make.state(metrics={CPU_PRESSURE: it}) for name, it in (("edge-1", 0.95), ("edge-2", 0.0))}
        inputs = replace(inputs_of(), snapshot=Snapshot(nodes=nodes))
        wall_clock = lambda: 5000.0 + self.now  # noqa: E731
        given = tools(client, Told(), lambda: inputs, clock=lambda: self.now, wall_clock=wall_clock)
        self.healed = HealedCluster(given, SelfHealingSettings(), dict)
        self.rebalancer = Rebalancer(given, self.healed, self.carrier, RebalanceSettings())  # type: ignore[arg-type]

    async def after_a_while(self) -> None:
        self.now += Rebalancer.every_seconds
        await self.rebalancer.turn()


@pytest.fixture
async def balanced(api: FakeApiServer, client: ApiClient) -> AsyncIterator[Balanced]:
    put_nodes(api, edge_1="8Gi", edge_2="8Gi")
    api.put("/api/v1/namespaces/shop/pods/web", owned_pod("edge-1", uid="web-uid"))
    one = Balanced(client)
    async with followed(one.healed.follower):
        yield one


async def test_a_plan_is_handed_over_once_the_first_interval_is_over(balanced: Balanced) -> None:
    await balanced.rebalancer.turn()
    assert await balanced.object.read() is None
    await balanced.after_a_while()
    given = await balanced.object.read()
    assert given is not None
    assert given.plan.origin is PlanOrigin.REBALANCE
    assert given.plan.taken_at == 5000.0 + Rebalancer.every_seconds
    assert [(move.name, move.to_node) for move in given.plan.moves] == [("web", "edge-2")]
    assert balanced.rebalancer.page()["moves"] == {"shop/web": given.plan.moves[0].reason}


async def test_what_was_moved_before_counts(balanced: Balanced) -> None:
    balanced.carrier.plan = last_plan(departures=(Departure("rs-web", "edge-2", 5000.0, landed_on="edge-1"),))
    await balanced.after_a_while()
    assert await balanced.object.read() is None


@pytest.mark.parametrize(
    ("request_of_it", "left"), [(PlanRequest.RUN, PlanOrigin.DRAIN), (PlanRequest.ABORT, PlanOrigin.REBALANCE)]
)
async def test_a_plan_that_waits_to_be_seen_is_replaced_only_when_it_was_aborted(
    request_of_it: PlanRequest, left: PlanOrigin, balanced: Balanced
) -> None:
    await balanced.object.write(HandedOverPlan(MovePlan(origin=PlanOrigin.DRAIN, taken_at=5000.0), request_of_it))
    await balanced.after_a_while()
    given = await balanced.object.read()
    assert given is not None
    assert given.plan.origin is left
