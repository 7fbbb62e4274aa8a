"""A policy's status is written when it differs, and not fought for."""

from typing import TYPE_CHECKING, Any

import pytest

from controller.event_recorder import EventRecorder
from controller.policy_status import REWRITE_INTERVAL_SECONDS, PolicyStatusWriter
from leadsman.decision.inputs import DecisionInputs
from leadsman.kube.client import ApiClient
from leadsman.runtime.token_bucket import TokenBucket
from leadsman.sources.telemetry.tas_policies import TASPOLICY_RESOURCE, BoundedJson, TasPolicyMetadata, TasPolicyObject
from leadsman.testbed.api_objects import parse_path
from leadsman.testbed.fake_api_server import FakeApiServer

if TYPE_CHECKING:
    from tests.controller.conftest import Make

PATH = TASPOLICY_RESOURCE.path("ns", "p")


@pytest.fixture
def facts(make: "Make") -> DecisionInputs:
    return make.known([make.policy(deschedule=[make.rule("m", "Equals", 1)])], {"m": {"n1": 1}})


@pytest.fixture
def now() -> list[float]:
    return [100.0]


@pytest.fixture
def statuses(client: ApiClient, api: FakeApiServer, now: list[float]) -> PolicyStatusWriter:
    api.put(PATH, {"spec": {}})
    return PolicyStatusWriter(client, EventRecorder(client, TokenBucket(1, 1), "one"), lambda: now[0])


def policy(status: Any = None) -> dict[tuple[str, str], TasPolicyObject]:
    return {("ns", "p"): TasPolicyObject(TasPolicyMetadata("p", "ns"), status=BoundedJson(status))}


async def test_what_stands_there_is_not_written_again_however_late(
    statuses: PolicyStatusWriter, api: FakeApiServer, facts: DecisionInputs, now: list[float]
) -> None:
    await statuses.sync(policy(), facts)
    standing = api.objects.get(parse_path(PATH))["status"]
    assert [each["type"] for each in standing["conditions"]] == ["Accepted", "Active"]
    now[0] += 10 * REWRITE_INTERVAL_SECONDS
    await statuses.sync(policy(standing), facts)
    assert api.verbs() == ["patch"]


async def test_a_status_that_does_not_stay_is_written_once_a_minute(
    statuses: PolicyStatusWriter, api: FakeApiServer, facts: DecisionInputs, now: list[float]
) -> None:
    for _ in range(int(REWRITE_INTERVAL_SECONDS) + 1):
        await statuses.sync(policy(), facts)
        now[0] += 1
    assert api.verbs() == ["patch"] * 2


async def test_a_policy_that_nobody_has_read_yet_has_no_status(
    statuses: PolicyStatusWriter, api: FakeApiServer, make: "Make"
) -> None:
    await statuses.sync(policy(), make.known([], {}))
    assert api.verbs() == []
