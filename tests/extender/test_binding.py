"""Bind against a scripted API server on a real socket."""

import asyncio
import json
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from extender.record_queues import BindFailureQueue, blamed_cause
from leadsman.kube.access import ApiAccess
from leadsman.kube.client import ApiClient, ApiRequest
from leadsman.kube.errors import ApiError, Conflict, Forbidden, InvalidRequest, NotFound, TooManyRequests, Unavailable
from leadsman.kube.resources import PODS
from leadsman.rewards.incident_causes import IncidentCause
from leadsman.state import keys
from leadsman.state.records import BindFailure, decode_record
from tests.extender.conftest import Captured, Starter
from tests.memory_store import MemoryStore
from tests.testbed.scripted_api_server import FakeApiServer

PATH = "/api/v1/namespaces/default/pods/cap-00000/binding"


class Script:
    """Answers every POST with `status` and `body`, and remembers what came."""

    def __init__(self, status=201, body=b'{"kind":"Status","status":"Success"}'):
        self.status, self.body, self.silent = status, body, asyncio.Event()
        self.asked = []

    async def __call__(self, request):
        self.asked.append((request.path, request.headers.get("Authorization"), await request.json()))
        if self.status == 0:
            await self.silent.wait()
        return web.Response(status=self.status, body=self.body, content_type="application/json")

    @asynccontextmanager
    async def served(self, tls=None):
        runner = web.ServerRunner(web.Server(self), shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
        await site.start()
        try:
            yield f"{'https' if tls else 'http'}://127.0.0.1:{runner.addresses[0][1]}"
        finally:
            self.silent.set()
            await runner.cleanup()


@asynccontextmanager
async def binding(starts, script, token_file=None, **settings):
    async with (
        script.served() as url,
        starts(api=ApiClient(ApiAccess(url, token_file=token_file), **settings)) as extender,
    ):
        yield extender


async def test_a_binding_is_posted_and_answered_once_the_api_server_has_bound(
    starts: Starter, captured: Captured
) -> None:
    script = Script()
    async with binding(starts, script) as extender:
        assert await extender.asked("/bind", captured("bind")) == {"Error": ""}
    assert script.asked == [
        (
            PATH,
            None,
            {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {
                    "name": "cap-00000",
                    "namespace": "default",
                    "uid": "a686c154-8437-4411-b677-3eb67eda336f",
                },
                "target": {"apiVersion": "v1", "kind": "Node", "name": "node-00001"},
            },
        )
    ]


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
    starts: Starter, captured: Captured, status: int, body, error
) -> None:
    async with binding(starts, Script(status, body)) as extender:
        assert await extender.asked("/bind", captured("bind")) == {"Error": error}


async def test_an_error_that_kube_scheduler_is_answered_shows_no_credentials_of_the_url(
    starts: Starter, captured: Captured
) -> None:
    """It writes them into an Event of the pod."""
    async with starts(api=ApiClient(ApiAccess("http://me:s3cret@127.0.0.1:1"))) as extender:
        answer = await extender.asked("/bind", captured("bind"))
    assert answer["Error"].startswith("http://<redacted>@127.0.0.1:1: ClientConnectorError")
    assert "s3cret" not in answer["Error"]


async def test_a_name_that_is_none_is_refused_and_nothing_is_posted(starts: Starter, captured: Captured) -> None:
    script = Script()
    async with binding(starts, script) as extender:
        body = json.dumps(json.loads(captured("bind")) | {"PodName": "../../secrets"}).encode()
        assert (await extender.post("/bind", body))[0] == 400
    assert script.asked == []


# Binds that failed: which of them blame the node, and what the store is told.

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
