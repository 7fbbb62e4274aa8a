"""A policy's status is written when it differs, and not fought for."""

from typing import TYPE_CHECKING, Any

import pytest

from controller.policies import REWRITE_INTERVAL_SECONDS, PolicyStatusWriter
from leadsman.decision.inputs import DecisionInputs
from leadsman.kube.client import ApiClient
from leadsman.kube.events import EventWriter
from leadsman.kube.objects import ObjectMeta
from leadsman.runtime.token_bucket import TokenBucket
from leadsman.sources.telemetry.telemetry_sources import (
    TASPOLICY_RESOURCE,
    BoundedJson,
    TasPolicyObject,
)
from tests.controller.followed import tools
from tests.testbed.scripted_api_server import FakeApiServer

if TYPE_CHECKING:
    from tests.controller.conftest import Make

PATH = TASPOLICY_RESOURCE.path("ns", "p")


class Statuses:
    """A writer, the policies that it sees, the facts and the time."""

    def __init__(self, client: ApiClient, facts: DecisionInputs) -> None:
        self.now, self.facts = 100.0, facts
        self.standing: Any = None
        events = EventWriter(client, TokenBucket(1, 1), "one")
        given = tools(client, events, lambda: self.facts, clock=lambda: self.now)
        self.writer = PolicyStatusWriter(given, lambda: policy(self.standing))


def policy(status: Any = None) -> dict[tuple[str, str], TasPolicyObject]:
    return {("ns", "p"): TasPolicyObject(ObjectMeta("p", "ns"), status=BoundedJson(status))}


@pytest.fixture
def statuses(client: ApiClient, api: FakeApiServer, make: "Make") -> Statuses:
    api.put(PATH, {"spec": {}})
    return Statuses(client, make.known([make.policy(deschedule=[make.rule("m", "Equals", 1)])], {"m": {"n1": 1}}))


async def test_a_status_that_does_not_stay_is_written_once_a_minute(statuses: Statuses, api: FakeApiServer) -> None:
    for _ in range(int(REWRITE_INTERVAL_SECONDS) + 1):
        await statuses.writer.turn()
        statuses.now += 1
    assert api.verbs() == ["patch"] * 2
