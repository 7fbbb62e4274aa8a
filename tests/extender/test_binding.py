"""Bind against a scripted API server on a real socket."""

import json

import pytest

from extender.record_queues import BindFailureQueue, blamed_cause
from leadsman.kube.access import ApiAccess
from leadsman.kube.client import ApiClient, ApiRequest
from leadsman.kube.errors import ApiError, Conflict, Forbidden, InvalidRequest, NotFound, TooManyRequests, Unavailable
from leadsman.kube.resources import PODS
from leadsman.rewards.incident_causes import IncidentCause
from leadsman.state import keys
from tests.extender.conftest import captured, starts
from tests.memory_store import MemoryStore
from tests.testbed.scripted_api_server import FakeApiServer

POD = "/api/v1/namespaces/default/pods/cap-00000"
UID = "a686c154-8437-4411-b677-3eb67eda336f"


async def test_a_binding_is_posted_and_answered_once_the_api_server_has_bound(api: FakeApiServer) -> None:
    api.put(POD, {"metadata": {"uid": UID}, "spec": {}})
    async with starts(api=ApiClient(ApiAccess(api.url))) as extender:
        assert await extender.asked("/bind", captured("bind")) == {"Error": ""}
    [asked] = api.requests
    metadata = {"name": "cap-00000", "namespace": "default", "uid": UID}
    target = {"apiVersion": "v1", "kind": "Node", "name": "node-00001"}
    assert (asked.path, asked.token) == (f"{POD}/binding", "")
    assert asked.body == {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (409, b'{"kind":"Status","message":"pod is already assigned"}', "API server: 409 pod is already assigned"),
        (500, b"<html>oops", "API server: 500 <html>oops"),
        (403, b"[" * 200_000, "API server: 403 " + "[" * 200),
        (302, b"", "API server: 302 "),
        (204, b"", "API server: 204 "),
    ],
)
async def test_without_a_binding_the_answer_is_an_error(
    api: FakeApiServer, status: int, body: bytes, error: str
) -> None:
    api.fail("create", status, body=body)
    async with starts(api=ApiClient(ApiAccess(api.url))) as extender:
        assert await extender.asked("/bind", captured("bind")) == {"Error": error}


async def test_an_error_that_kube_scheduler_is_answered_shows_no_credentials_of_the_url() -> None:
    """It writes them into an Event of the pod."""
    async with starts(api=ApiClient(ApiAccess("http://me:s3cret@127.0.0.1:1"))) as extender:
        answer = await extender.asked("/bind", captured("bind"))
    assert answer["Error"].startswith("http://<redacted>@127.0.0.1:1: ClientConnectorError")
    assert "s3cret" not in answer["Error"]


async def test_a_name_that_is_none_is_refused_and_nothing_is_posted(api: FakeApiServer) -> None:
    async with starts(api=ApiClient(ApiAccess(api.url))) as extender:
        body = json.dumps(json.loads(captured("bind")) | {"PodName": "../../secrets"}).encode()
        assert (await extender.post("/bind", body))[0] == 400
    assert api.requests == []


# Binds that failed: which of them blame the node, and what the store is told.

REFUSED = InvalidRequest("API server: 422 host name is wrong", 422)


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (REFUSED, IncidentCause.BIND_REFUSED),
        (Conflict("API server: 409 pod a is already assigned to node b", 409), None),
        (Conflict("API server: 409 pod a is being deleted, cannot be assigned to a host", 409), None),
        (NotFound("API server: 404 pods a not found", 404), None),
        (Forbidden("API server: 403 a role is missing", 403), None),
        (TooManyRequests("API server: 429", 429), None),
        (Unavailable("connection refused"), None),
    ],
)
def test_only_what_the_node_may_be_the_reason_of_blames_it(error: ApiError, cause: IncidentCause | None) -> None:
    assert blamed_cause(error) is cause


async def test_a_bind_that_times_out_on_the_wire_is_a_timeout(api: FakeApiServer) -> None:
    api.silence()
    async with ApiClient(ApiAccess(api.url), deadline_seconds=0.1) as client:
        with pytest.raises(ApiError) as told:
            await client.send(ApiRequest("POST", PODS.path("default", "web-0", "binding"), body={}))
    assert blamed_cause(told.value) is IncidentCause.BIND_TIMEOUT


async def test_what_blames_nobody_and_what_cannot_be_a_key_is_not_told() -> None:
    store = MemoryStore()
    failures = BindFailureQueue(store)
    failures.report("edge-1", "uid-1", "web", NotFound("gone", 404))
    failures.report("../edge", "uid-1", "web", REFUSED)
    failures.report("edge-1", "a/b", "web", REFUSED)
    failures.report("edge-1", "uid-1", "no type", REFUSED)
    await failures.write()
    assert not (await store.read_prefix(keys.BIND_FAILURES_PREFIX)).items
    assert failures.dropped == 3
