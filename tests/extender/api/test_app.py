"""The API over HTTP: what it answers, and to whom."""

import asyncio
import contextlib
import gzip
from typing import Any, cast
from unittest.mock import AsyncMock, Mock

import aiohttp
import pytest
from msgspec.structs import replace

from extender.api.app import PREFIX, ROUTES, openapi_document
from extender.api.live import MAX_STREAMS
from extender.api.requests import POSTS_AT_ONCE, Route
from extender.api.what_if import MAX_YAML_BYTES, read_pod
from extender.app import create_app, create_ops_app
from extender.body_limits import RequestRefused
from extender.decider import Decider
from extender.journal import FORGET_SECONDS, Journal
from extender.metrics import ExtenderMetrics
from leadsman.cluster.devices.node_devices import NodeDevices
from leadsman.cluster.resources import Resources
from leadsman.decision.inputs import DeviceInputs
from leadsman.kube.access import ApiAccess
from leadsman.kube.client import ApiClient
from leadsman.runtime.http_server import Health, serve
from leadsman.sources.cluster.workload_follower import WorkloadFollower
from leadsman.sources.delay.delay_sources import DelaySources
from leadsman.state.snapshot import Snapshot
from tests.extender.api.conftest import Api, started
from tests.extender.conftest import Fixed
from tests.testbed.background import running
from tests.testbed.scripted_api_server import FakeApiServer
from tests.waiting import until

POD = (
    "kind: Pod\nmetadata: {name: p, labels: {delay_edge-a-0000: '12'}}\nspec: {containers: [{name: c, image: private}]}"
)


MILLISECONDS = "milliseconds, more than 0 and at most 60000"
TOO_NEAR = {"delay_edge-a-0000": "0.01", "delay_edge-a-0001": "0.01"}
"""What no node is to both."""

QUERIES = {
    "/delays/within": "?node=edge-a-0000&bound_ms=20",
    "/delays/change": "?from=2026-01-01T00:00:00Z&to=2030-01-01T00:00:00Z",
}
BODIES = {"/what-if": {"yaml": POD}, "/measure": {"source": "edge-a-0000", "target": "edge-a-0001"}}


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.path)
async def test_every_answer_is_what_the_openapi_document_says(api: Api, route: Route) -> None:
    api.decide("cart-1", {"delay_edge-a-0000": "12"})
    view = await api.live.view()
    api.live.history.add(view.at, view.table)
    first, second, *_ = api.cluster.names
    filled = route.path.format(name="cart-1" if "/pods/" in route.path else first, namespace="shop", a=first, b=second)
    path = filled + QUERIES.get(route.path, "")
    status, body = await (api.post(path, BODIES[route.path]) if route.takes else api.get(path))
    assert status == route.status, body
    document = openapi_document()
    operation = document["paths"][PREFIX + route.path][route.method.lower()]
    # Its import takes two seconds, and every worker collects all tests.
    import jsonschema

    schema = operation["responses"][str(route.status)]["content"]["application/json"]["schema"]
    jsonschema.validate(body, {**schema, "components": document["components"]})


async def test_what_if_knows_what_is_reserved_as_the_filter_does(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here that etcd does not say it."""
    with_cards = DeviceInputs(True, {"edge-a-0000": NodeDevices({"nvidia.com/gpu": 4})})
    unknown = replace(with_cards, reservations_problem="etcd does not say it")
    reservations = Mock(read=AsyncMock(side_effect=lambda inputs: replace(inputs, devices=unknown)))
    api.live.sources = replace(api.live.sources, reservations=reservations)
    now = replace(api.live.sources.inputs.current_inputs(), devices=with_cards)
    monkeypatch.setattr(type(api.live.sources.inputs), "current_inputs", lambda _: now)
    asking = POD.replace("name: p,", "name: p, annotations: {leadsman.dev/device-memory: 5Gi},")
    asking = asking.replace("image: private", "image: private, resources: {requests: {nvidia.com/gpu: 1}}")
    status, body = await api.post("/what-if", {"yaml": asking})
    assert status == 200
    assert "etcd does not say it" in str(body)


async def test_a_node_without_an_agent_is_asked_about_as_kube_scheduler_asks(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    followed = replace(api.live.sources.inputs.current_inputs(), node_roles={"edge-a-0000": "", "bare": ""})
    monkeypatch.setattr(type(api.live.sources.inputs), "current_inputs", lambda _: followed)
    _, decided = await api.post("/what-if", {"yaml": POD})
    assert {node["node"] for node in decided["explanation"]["nodes"]} == {"edge-a-0000", "bare"}
    _, within = await api.get("/delays/within?node=bare&bound_ms=10")
    assert [(node["name"], node["passes"]) for node in within["items"]] == [("bare", True), ("edge-a-0000", False)]


@pytest.mark.parametrize(
    ("sort", "seconds_ago", "first"),
    [("newest", 60, "placed"), ("waiting", 60, "waits"), ("waiting", FORGET_SECONDS + 1, "placed")],
    ids=["newest", "waiting", "not-tried-any-more"],
)
async def test_pods_that_wait_are_listed_first_where_asked_until_kube_scheduler_stops_trying_them(
    api: Api, sort: str, seconds_ago: float, first: str
) -> None:
    api.decide("waits", TOO_NEAR, seconds_ago)
    api.decide("placed")
    _, listed = await api.get(f"/decisions?sort={sort}")
    assert listed["items"][0]["pod"] == f"shop/{first}"
    assert listed["total"] == 2


async def test_an_answer_that_is_the_same_is_not_sent_again(api: Api) -> None:
    url = "/api/v1/delays/groups"
    async with (
        api.session.get(url) as first,
        api.session.get(url, headers={"If-None-Match": first.headers["ETag"]}) as again,
    ):
        assert first.status == 200
        assert again.status == 304
        assert await again.read() == b""


async def test_large_answers_are_compressed_for_those_who_take_it() -> None:
    async with started(nodes=60) as api:
        async with aiohttp.ClientSession(api.session._base_url, auto_decompress=False) as raw:
            async with raw.get("/api/v1/nodes", headers={"Accept-Encoding": "gzip"}) as response:
                packed = await response.read()
            async with raw.get("/api/v1/nodes", headers={"Accept-Encoding": "identity"}) as response:
                plain = await response.read()
        assert gzip.decompress(packed)[:20] == plain[:20]
        assert len(packed) * 3 < len(plain)


async def test_pages_of_a_list_have_every_item_once(api: Api) -> None:
    names, cursor = list[str](), "0"
    while cursor:
        _, page = await api.get(f"/nodes?limit=3&cursor={cursor}")
        names += [node["name"] for node in page["items"]]
        cursor = page["next"]
    assert names == sorted(api.cluster.names)


@pytest.mark.parametrize(
    ("path", "status", "field", "allowed"),
    [
        ("/nodes?limit=0", 400, "limit", "a whole number from 1 to 1000"),
        ("/state?limt=1", 400, "limt", "no parameter"),
        ("/nodes?limit=0000000000001001", 400, "limit", "a whole number from 1 to 1000"),
        ("/nodes?limit=1001", 400, "limit", "a whole number from 1 to 1000"),
        ("/nodes?sort=colour", 400, "sort", "problem or name or loss or shift or age or rtt"),
        ("/nodes?status=dead", 400, "status", "fresh or provisional or stale or unknown"),
        ("/nodes/nobody", 404, "name", "the name of a node"),
        ("/delays/cells?rows=129", 400, "rows", "a whole number from 1 to 128"),
        ("/delays/pairs/edge-a-0000/nobody", 404, "b", "the name of a node"),
        ("/delays/pairs/edge-a-0000/edge-a-0000", 400, "b", "the name of another node"),
        ("/delays/within?node=edge-a-0000&bound_ms=-1", 400, "bound_ms", MILLISECONDS),
        ("/delays/within?node=edge-a-0000&bound_ms=nan", 400, "bound_ms", MILLISECONDS),
        ("/delays/change?from=yesterday&to=x", 400, "from", "ISO 8601 with an offset, as 2026-01-31T14:02:00Z"),
        ("/nothing", 404, "", ""),
    ],
)
async def test_an_error_names_the_field_and_what_is_allowed(
    api: Api, path: str, status: int, field: str, allowed: str
) -> None:
    answered, body = await api.get(path)
    assert answered == status
    assert (body["error"]["field"], body["error"]["allowed"]) == (field, allowed)


async def test_a_lost_window_is_lost_and_never_a_number() -> None:
    async with started(nodes=60) as api:
        _, cells = await api.get("/delays/cells?rows=60&columns=60")
        marked = [
            (rtt_ms, kind)
            for row, kinds in zip(cells["rtt_ms"], cells["kind"], strict=True)
            for rtt_ms, kind in zip(row, kinds, strict=True)
        ]
        assert {kind for _, kind in marked} == {"measured", "estimate", "lost", "self"}
        assert all((rtt_ms is None) == (kind in ("lost", "self")) for rtt_ms, kind in marked)


async def test_who_is_within_a_bound_is_whom_the_filter_lets_pass(api: Api) -> None:
    api.decide("cart-1", {"delay_edge-a-0000": "12"})
    _, within = await api.get("/delays/within?node=edge-a-0000&bound_ms=12")
    _, decision = await api.get("/pods/shop/cart-1?limit=10000")
    passes = {node["name"] for node in within["items"] if node["passes"]}
    assert passes == {node["node"] for node in decision["explanation"]["nodes"] if node["verdict"] == "kept"}
    assert 0 < len(passes) < len(api.cluster.names)


async def test_a_node_that_others_contradict_says_so_in_the_same_words_everywhere(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    why = "other nodes contradict 14 of the 16 delays that it reports: to edge-a-0001"
    monkeypatch.setattr(DelaySources, "contradicted", {"edge-a-0000": why})
    monkeypatch.setattr(DelaySources, "implausible", {"edge-e-0006": ["edge-a-0000"]})
    _, contradicted = await api.get("/nodes/edge-a-0000")
    _, sound = await api.get("/nodes/edge-e-0006")
    assert why in contradicted["problems"]
    assert sound["problems"] == []
    assert sound["implausible"] == ["edge-a-0000"], "one implausible report says nothing of its reporter"
    problems = [each["text"] for each in (await api.get("/overview"))[1]["problems"]]
    assert f"edge-a-0000: {why}" in problems
    assert not any("edge-e-0006" in each for each in problems)


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", ""])
async def test_a_request_for_another_host_is_refused(api: Api, host: str) -> None:
    status, body = await api.get("/overview", Host=host)
    assert (status, body["error"]["field"]) == (403, "Host")
    for loopback in ("localhost", "127.0.0.1:9008", "[::1]:9008"):
        assert (await api.get("/overview", Host=loopback))[0] == 200


@pytest.mark.parametrize(
    ("header", "value", "status"),
    [("Sec-Fetch-Site", sender, 403) for sender in ("cross-site", "same-site", "none")]
    + [("Content-Type", "text/plain", 400)],
)
async def test_a_post_or_form_of_another_page_is_refused(api: Api, header: str, value: str, status: int) -> None:
    async with api.session.post("/api/v1/measure", json=BODIES["/measure"], headers={header: value}) as response:
        assert (response.status, (await response.json())["error"]["field"]) == (status, header)
    assert api.measured == []


async def test_more_posts_than_are_allowed_are_refused(api: Api) -> None:
    answers = [await api.post("/measure", BODIES["/measure"]) for _ in range(POSTS_AT_ONCE + 3)]
    assert {status for status, _ in answers} == {202, 429}


async def test_a_change_of_the_state_is_an_event_and_there_are_at_most_32_streams(api: Api) -> None:
    async with asyncio.timeout(60), contextlib.AsyncExitStack() as readers:
        opened = [await readers.enter_async_context(api.session.get("/api/v1/events")) for _ in range(MAX_STREAMS)]
        assert (await api.get("/events"))[0] == 429
        first = opened[0]
        assert first.content_type == "text/event-stream"
        assert first.headers["X-Accel-Buffering"] == "no", "nginx is to pass events on at once"
        await first.content.readuntil(b"\n\n")
        state: Any = api.live.sources.inputs.state
        state.current = replace(state.current, revision=8)
        event = b'event: change\ndata: {"sections":["nodes","delays"],"revision":8}\n\n'
        while await first.content.readuntil(b"\n\n") != event:
            pass
    await until(lambda: not api.live.streams)
    async with api.live.open_stream():
        pass
    assert not api.live.streams, "a reader that left before its first event"


async def test_a_pod_that_is_deleted_or_has_a_node_waits_no_more(api: Api) -> None:
    """Where pods are followed; another replica may have placed it."""
    pods = "/api/v1/namespaces/shop/pods"
    async with FakeApiServer() as server, ApiClient(ApiAccess(server.url), deadline_seconds=60.0) as client:
        workloads = WorkloadFollower(client)
        sources = api.live.sources
        api.live.sources = replace(sources, inputs=replace(sources.inputs, workloads=workloads))
        for name in ("waits", "placed", "deleted", "made-again"):
            api.decide(name, {"delay_nosuch": "1"})
            uid = "uid-of-another" if name == "made-again" else f"uid-{name}"
            server.put(f"{pods}/{name}", {"metadata": {"uid": uid}, "spec": {}})
        server.put(f"{pods}/placed", {"metadata": {"uid": "uid-placed"}, "spec": {"nodeName": "n"}})
        server.delete(f"{pods}/deleted")
        async with running(workloads.run()):
            await until(lambda: workloads.current.loaded)
            waiting = (await api.get("/overview"))[1]["waiting"]
            listed = (await api.get("/decisions?sort=waiting"))[1]
    assert (waiting["bounded_pods"], waiting["pod"]) == (1, "shop/waits")
    assert listed["items"][0]["pod"] == "shop/waits"


# The listener as a process runs it: the page with its policy, and nothing of it on kube-scheduler's listener.


async def test_a_history_is_kept_from_the_first_time_that_the_page_is_opened(api: Api) -> None:
    """At 5,000 nodes it takes 30 MiB, and a third of a second each minute."""
    async with running(api.live.run()):
        await api.get("/overview")
        assert api.live.history.is_empty
    async with api.session.get("/"), running(api.live.run()):
        await until(lambda: not api.live.history.is_empty)


async def test_no_listener_knows_what_another_answers(api: Api) -> None:
    for verb in ("filter", "prioritize", "preempt", "bind", "scheduler/filter"):
        async with api.session.post(f"/{verb}", json={}) as response:
            assert response.status == 404
    sources = api.live.sources
    for app in (
        create_app(Decider(sources.inputs, journal=Journal(), metrics=ExtenderMetrics(), workers=sources.workers)),
        create_ops_app(lambda: Health(True), ExtenderMetrics(), sources.workers),
    ):
        async with serve(app, "127.0.0.1", 0) as port, aiohttp.ClientSession() as session:
            for path in ("/api/v1/overview", "/"):
                async with session.get(f"http://127.0.0.1:{port}{path}") as response:
                    assert response.status == 404


async def test_a_view_from_before_the_state_was_read_is_not_shown_afterwards(api: Api) -> None:
    state = cast(Fixed, api.live.sources.inputs.state)
    loaded, state.current = state.current, Snapshot()
    assert (await api.get("/nodes"))[1]["total"] == 0
    state.current = loaded
    assert (await api.get("/nodes"))[1]["total"] == 10


# Which YAML is read as a pod.


def test_what_has_a_limit_and_no_request_is_requested_as_the_api_server_does() -> None:
    resources = "{limits: {nvidia.com/gpu: 2, cpu: 2}, requests: {cpu: 1}}"
    pod = read_pod(f"kind: Pod\nmetadata: {{name: p}}\nspec: {{containers: [{{name: c, resources: {resources}}}]}}")
    assert pod.requests == Resources(1000, 0, 1, {"nvidia.com/gpu": 2})


@pytest.mark.parametrize(
    ("yaml", "why"),
    [
        ("", "the document is not an object"),
        ("[1]", "the document is not an object"),
        ("kind: Service", "kind is 'Service'"),
        ("kind: Pod\nmetadata: 7", "metadata is not an object"),
        ("kind: Deployment\nspec: {template: x}", "template is not an object"),
        ("kind: Pod\nmetadata: {labels: {a: 1}}", "labels"),
        ("kind: Pod\nspec: {containers: [7]}", "container is not an object"),
        ("kind: Pod\nspec: {containers: [{name: c, resources: {limits: 7}}]}", "limits is not an object"),
        ("kind: Pod\nspec: {containers: 7}", "$.Pod.spec.containers"),
        ("a: &x [1]\nb: *x", "alias"),
        ("!!python/object/apply:os.system [ls]", "tag"),
        ("{" * 100, "nesting"),
        ("a: 1\na: 2", "twice"),
        pytest.param("#" * (MAX_YAML_BYTES + 1), "larger than 256 KiB", id="too long"),
    ],
)
def test_what_is_no_pod_is_refused_with_the_reason(yaml: str, why: str) -> None:
    with pytest.raises(RequestRefused) as refused:
        read_pod(yaml)
    assert refused.value.status == (413 if len(yaml) > MAX_YAML_BYTES else 400)
    assert why in str(refused.value)
