"""Calls against a server on a real socket: what is sent, and which type each refusal has."""

import asyncio
from pathlib import Path
from unittest.mock import AsyncMock, Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadsman.kube import errors
from leadsman.kube.access import ApiAccess
from leadsman.kube.client import ApiClient, read_line_batches
from leadsman.kube.objects import Pod
from leadsman.kube.resources import PODS
from tests.testbed.scripted_api_server import FakeApiServer
from tests.waiting import until

WEB = PODS.path("default", "web-0")


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (302, errors.MalformedResponse),
        (400, errors.InvalidRequest),
        (401, errors.Unauthorized),
        (403, errors.Forbidden),
        (409, errors.Conflict),
        (410, errors.Gone),
        (422, errors.InvalidRequest),
        (429, errors.TooManyRequests),
        (500, errors.Unavailable),
        (503, errors.Unavailable),
    ],
)
async def test_each_refusal_has_its_type_its_status_and_the_apis_message(
    api: FakeApiServer, client: ApiClient, status: int, kind
) -> None:
    api.fail("get", status)
    with pytest.raises(errors.ApiError, match=f"API server: {status} scripted {status}") as caught:
        await client.get(WEB, Pod)
    assert (type(caught.value), caught.value.status) == (kind, status)


async def test_429_is_tried_again_after_the_time_asked_for(api: FakeApiServer, client: ApiClient) -> None:
    api.put(WEB, {})
    api.fail("get", 429, retry_after_seconds=1)
    began = asyncio.get_running_loop().time()
    await client.get(WEB, Pod)
    assert asyncio.get_running_loop().time() - began >= 1


@pytest.mark.parametrize("seconds", [0, 60])
async def test_429_that_asks_for_no_time_or_more_than_the_deadline_is_raised_at_once(
    api: FakeApiServer, client: ApiClient, seconds: int
) -> None:
    api.fail("get", 429, retry_after_seconds=seconds)
    with pytest.raises(errors.TooManyRequests) as caught:
        await client.get(WEB, Pod)
    assert caught.value.retry_after_seconds == seconds
    assert len(api.requests) == 1


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("5", 5.0), ("86400", 120.0), ("Wed, 21 Oct 2026 07:28:00 GMT", None), ("-1", None), ("²", None), (None, None)],
)
def test_retry_after_is_read_in_seconds_and_bounded(header: str | None, seconds: float | None) -> None:
    assert errors.error_from_response(429, b"", header).retry_after_seconds == seconds


async def test_a_server_that_does_not_answer_is_unavailable_within_the_deadline(api: FakeApiServer) -> None:
    api.silence()
    async with ApiClient(ApiAccess(api.url), deadline_seconds=0.1) as client:
        with pytest.raises(errors.Unavailable, match=r"no response within 0\.1 s"):
            await client.get(WEB, Pod)


@pytest.mark.parametrize("content", [b"one\ntwo", b"", b"null\x00", b"\xff\xfe"])
async def test_a_token_file_is_read_for_each_call_and_named_where_it_holds_no_token(
    api: FakeApiServer, tmp_path: Path, content
) -> None:
    """kubelet rotates it. aiohttp refuses some of these by a ValueError, which once ended the process."""
    token = tmp_path / "token"
    token.write_bytes(content)
    async with ApiClient(ApiAccess(api.url, token_file=token)) as client:
        with pytest.raises(errors.Unauthorized, match=f"token file {token}: "):
            await client.get(WEB, Pod)
        assert api.requests == []
        for word in ("old", "new"):
            token.write_text(f"{word}\n")
            with pytest.raises(errors.NotFound):
                await client.get(WEB, Pod)
        assert [asked.token for asked in api.requests] == ["old", "new"]


def test_a_name_cannot_leave_its_place() -> None:
    assert PODS.path("a/b", "../secrets", "log") == "/api/v1/namespaces/a%2Fb/pods/..%2Fsecrets/log"


async def test_a_write_that_waited_for_a_connection_while_the_lead_ended_is_not_sent(api: FakeApiServer) -> None:
    leads = True
    async with ApiClient(ApiAccess(api.url), connections=1, may_write=lambda: leads) as one:
        api.put(WEB, {})
        api.silence()
        reading = asyncio.create_task(one.get(WEB, Pod))
        writing = asyncio.create_task(one.patch(WEB, {}))
        await until(lambda: api.verbs() == ["get"])
        leads = False
        api.heal()
        await reading
        with pytest.raises(errors.NotLeader):
            await writing
    assert api.verbs() == ["get"]


@given(st.lists(st.binary(min_size=1, max_size=9).filter(lambda b: b"\n" not in b and b.strip())), st.data())
async def test_lines_of_a_stream_are_the_same_however_they_are_cut(wanted: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(line + b"\n" for line in wanted)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=9)))
    pieces = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    content = Mock(readany=AsyncMock(side_effect=[*filter(None, pieces), b""]))
    assert [line async for batch in read_line_batches(content, 5.0) for line in batch] == wanted
