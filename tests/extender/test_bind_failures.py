"""Binds that failed: which of them blame the node, and what the store is told."""

import pytest

from extender.record_queues import BindFailureQueue, blamed_cause
from leadsman.kube.access import ApiAccess
from leadsman.kube.client import ApiClient, ApiRequest
from leadsman.kube.errors import ApiError, Conflict, Forbidden, InvalidRequest, NotFound, TooManyRequests, Unavailable
from leadsman.kube.resources import PODS
from leadsman.rewards.incident_causes import IncidentCause
from leadsman.state import keys
from leadsman.state.records import BindFailure, decode_record
from tests.memory_store import MemoryStore
from tests.testbed.scripted_api_server import FakeApiServer

REFUSED = Conflict("API server: 409 Operation cannot be fulfilled on pods/binding", 409)


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (REFUSED, IncidentCause.BIND_REFUSED),
        (InvalidRequest("API server: 422 host name is wrong", 422), IncidentCause.BIND_REFUSED),
        (Conflict("API server: 409 pod a is already assigned to node b", 409), None),
        (NotFound("API server: 404 pods a not found", 404), None),
        (Forbidden("API server: 403 a role is missing", 403), None),
        (TooManyRequests("API server: 429", 429), None),
        (Unavailable("connection refused"), None),
    ],
)
def test_only_what_the_node_may_be_the_reason_of_blames_it(error: ApiError, cause: IncidentCause | None) -> None:
    assert blamed_cause(error) is cause


async def test_a_bind_that_times_out_on_the_wire_is_a_timeout() -> None:
    path = PODS.path("default", "web-0", "binding")
    async with FakeApiServer() as api, ApiClient(ApiAccess(api.url), deadline_seconds=0.1) as client:
        api.silence()
        with pytest.raises(ApiError) as told:
            await client.send(ApiRequest("POST", path, body={}))
    assert blamed_cause(told.value) is IncidentCause.BIND_TIMEOUT


async def stored(store: MemoryStore) -> dict[str, BindFailure]:
    items = (await store.read_prefix(keys.BIND_FAILURES_PREFIX)).items
    return {item.key: decode_record(BindFailure, item.value) for item in items}


async def test_what_blames_nobody_and_what_cannot_be_a_key_is_not_told() -> None:
    store = MemoryStore()
    failures = BindFailureQueue(store)
    failures.report("edge-1", "uid-1", "web", NotFound("gone", 404))
    failures.report("../edge", "uid-1", "web", REFUSED)
    failures.report("edge-1", "a/b", "web", REFUSED)
    failures.report("edge-1", "uid-1", "no type", REFUSED)
    await failures.write()
    assert await stored(store) == {}
    assert failures.dropped == 3
