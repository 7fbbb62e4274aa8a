"""A policy's status is written when it differs, and not fought for."""

import pytest

from controller.rate import Rate
from controller.recorder import Recorder
from controller.status import AGAIN_SECONDS, Statuses
from telemetry.policies import TASPOLICIES, PolicyMetadata, PolicyObject
from testbed.apiobjects import place_of

PATH = TASPOLICIES.path("ns", "p")


@pytest.fixture
def facts(make):
    return make.known([make.policy(deschedule=[make.rule("m", "Equals", 1)])], {"m": {"n1": 1}})


@pytest.fixture
def now():
    return [100.0]


@pytest.fixture
def statuses(client, api, now):
    api.put(PATH, {"spec": {}})
    return Statuses(client, Recorder(client, Rate(1, 1), "one"), lambda: now[0])


def policy(status=None):
    return {("ns", "p"): PolicyObject(PolicyMetadata("p", "ns"), {}, status)}


async def test_what_stands_there_is_not_written_again_however_late(statuses, api, facts, now):
    await statuses.round(policy(), facts)
    standing = api.objects.get(place_of(PATH))["status"]
    assert [each["type"] for each in standing["conditions"]] == ["Accepted", "Active"]
    now[0] += 10 * AGAIN_SECONDS
    await statuses.round(policy(standing), facts)
    assert api.verbs() == ["patch"]


async def test_a_status_that_does_not_stay_is_written_once_a_minute(statuses, api, facts, now):
    for _ in range(int(AGAIN_SECONDS) + 1):
        await statuses.round(policy(), facts)
        now[0] += 1
    assert api.verbs() == ["patch"] * 2


async def test_a_policy_that_nobody_has_read_yet_has_no_status(statuses, api, make):
    await statuses.round(policy(), make.known([], {}))
    assert api.verbs() == []
