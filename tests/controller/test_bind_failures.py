"""Failed binds from kube-scheduler's own Events: each counted once, and nobody is asked about other pods."""

import copy
import json
from pathlib import Path

import pytest

from controller.pods import REREAD_INTERVAL_SECONDS, BindFailureCounter, WatchedPod, bind_failure_cause
from leadsman.kube.client import ApiClient
from leadsman.kube.resources import CORE_EVENTS
from leadsman.rewards.incident_causes import IncidentCause
from leadsman.runtime.token_bucket import TokenBucket
from tests.controller.followed import listed, tools, waiting_pod
from tests.testbed.scripted_api_server import FakeApiServer

CAPTURED = json.loads((Path(__file__).parents[1] / "data" / "events" / "failed-binds.json").read_text())
BY_POD = {event["involvedObject"]["name"]: event for event in CAPTURED}


def waiting(name: str = "refused", reason: str = "SchedulerError") -> WatchedPod:
    return waiting_pod(name, reason=reason, namespace="default", uid=BY_POD[name]["involvedObject"]["uid"])


class Looking:
    """An Unbound, its API server, and the time."""

    def __init__(self, api, client):
        self.api, self.now = api, 0.0
        self.pending = listed({})
        given = tools(client, clock=lambda: self.now)
        self.unbound = BindFailureCounter(given, self.pending, TokenBucket(1e9, 100))

    def written(self, name, times=1):
        event = copy.deepcopy(BY_POD[name])
        event["series"] = {"count": times} if times > 1 else None
        self.api.put(CORE_EVENTS.path("default", event["metadata"]["name"]), event)

    async def at(self, seconds, *pods):
        self.now = seconds
        self.pending.current = {("default", pod.metadata.name): pod for pod in pods}
        await self.unbound.turn()
        return dict(self.unbound.failures)

    def asked(self):
        return [verb for verb in self.api.verbs() if verb == "list"]


@pytest.fixture
def look(api: FakeApiServer, client: ApiClient) -> Looking:
    return Looking(api, client)


@pytest.mark.parametrize(
    ("pod", "cause"),
    [
        ("refused", IncidentCause.BIND_REFUSED),
        ("timesout", IncidentCause.BIND_TIMEOUT),
        ("volume", IncidentCause.CLAIM_UNBOUND),
        ("extbind", None),
    ],
)
def test_what_a_real_scheduler_writes_has_its_cause(pod: str, cause) -> None:
    assert bind_failure_cause(BY_POD[pod]["message"]) is cause


async def test_a_failure_is_counted_once_however_often_it_is_read_and_whoever_leads(look: Looking) -> None:
    await look.at(0)
    for minute, (times, counted) in enumerate([(1, 1), (1, 1), (2, 2), (5, 2), (5, 2), (7, 4)], start=1):
        look.written("refused", times)
        if times == 5:
            look.unbound.forget()  # Another replica leads and counts.
        assert await look.at(minute * REREAD_INTERVAL_SECONDS, waiting()) == {IncidentCause.BIND_REFUSED: counted}


async def test_only_pods_that_were_given_up_with_an_error_are_asked_about_and_once_a_minute(look: Looking) -> None:
    assert await look.at(0, waiting(reason="Unschedulable")) == {}
    assert look.asked() == []
    for second in range(int(REREAD_INTERVAL_SECONDS)):
        await look.at(second, waiting())
    assert look.asked() == ["list"]
