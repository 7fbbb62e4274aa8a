import asyncio
import json
from itertools import chain, repeat
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from leadsman.state import etcd_http, etcd_json, store
from leadsman.state.etcd_http import EtcdAccess, EtcdTransport, LineReader
from leadsman.state.etcd_json import EtcdEvent, KeyValue, RangeResponse
from leadsman.state.etcd_store import to_change
from leadsman.state.store import Compacted, StoreError, Unavailable


def lines(*pieces: bytes) -> LineReader:
    """Of a body that arrives in these pieces and then ends."""
    return LineReader(Mock(readany=AsyncMock(side_effect=chain(pieces, repeat(b"")))), 5.0)


async def all_of(reader: LineReader) -> list[bytes]:
    found: list[bytes] = []
    try:
        while True:
            found.append(await reader.next())
    except Unavailable:
        return found


@given(st.lists(st.binary(min_size=1).filter(lambda b: b"\n" not in b), max_size=5), st.booleans(), st.data())
def test_lines_are_whole_however_they_arrive(wanted: list[bytes], ended: bool, data: st.DataObject) -> None:
    body = b"\n".join(wanted) + (b"\n" if ended and wanted else b"")
    cuts = sorted(data.draw(st.sets(st.integers(1, max(1, len(body) - 1)), max_size=4)))
    pieces = [body[a:b] for a, b in zip([0, *cuts], [*cuts, len(body)], strict=True)]
    assert asyncio.run(all_of(lines(*filter(None, pieces)))) == wanted


async def test_a_line_that_nobody_could_hold_asks_for_a_listing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(etcd_http, "LONGEST_LINE_BYTES", 10)
    with pytest.raises(Compacted, match="larger than 10 bytes"):
        await lines(b"x" * 11).next()


@pytest.mark.parametrize("endpoints", [(), ("127.0.0.1:2379",), ("http://a", "ftp://b")])
def test_endpoints_that_are_no_urls_are_refused(endpoints: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="endpoints"):
        EtcdAccess(endpoints)


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_a_ca_file_that_cannot_be_used_is_refused_at_once(content: str | None, tmp_path: Path) -> None:
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ValueError, match=r"ca_file .*ca\.pem"):
        EtcdTransport(EtcdAccess(("https://a",), ca_file=str(path)))


# Captured from etcd 3.5.1.
REFUSALS = [
    (400, "etcdserver: mvcc: required revision has been compacted", 11, store.Compacted),
    (400, "etcdserver: mvcc: required revision is a future revision", 11, store.Compacted),
    (404, "etcdserver: requested lease not found", 5, store.LeaseLost),
    (429, "etcdserver: mvcc: database space exceeded", 8, store.OutOfSpace),
    (429, "etcdserver: too many requests", 8, store.Unavailable),
    (400, "etcdserver: user name is empty", 3, store.Denied),
    (403, "etcdserver: permission denied", 7, store.Denied),
    (503, "etcdserver: request timed out", 14, store.Unavailable),
    (503, "etcdserver: no leader", 14, store.Unavailable),
    (500, "context deadline exceeded", 2, store.Unavailable),
    (400, "etcdserver: request is too large", 3, StoreError),
]


@pytest.mark.parametrize(("status", "text", "code", "kind"), REFUSALS)
def test_a_refusal_is_named_by_what_the_caller_can_do(
    status: int, text: str, code: int, kind: type[StoreError]
) -> None:
    body = {"error": text, "code": code, "message": text}
    error = etcd_json.error_from_response(status, json.dumps(body).encode())
    assert (type(error), str(error)) == (kind, text)


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"grpc_code": 14, "http_code": 503, "message": "etcdserver: no leader"}},
        {"error": {"code": 14, "message": "etcdserver: no leader", "details": []}},
        {"code": 14, "message": "etcdserver: no leader", "details": []},
    ],
)
def test_gateways_of_every_age_are_understood(body: dict[str, Any]) -> None:
    error = etcd_json.error_from_response(503, json.dumps(body).encode())
    assert (type(error), str(error)) == (store.Unavailable, "etcdserver: no leader")


def test_a_page_of_something_in_between_is_no_answer() -> None:
    assert isinstance(etcd_json.error_from_response(502, b"<html>Bad Gateway"), store.Unavailable)
    with pytest.raises(store.Unavailable, match="<html>"):
        etcd_json.decode_response(b"<html>", RangeResponse)


@given(st.integers(400, 599), st.binary(max_size=100))
@example(500, b'{"error":' * 10_000)
@example(400, b'{"x":' + b"[" * 10_000)
def test_any_refusal_whatever_its_bytes_is_a_store_error(status: int, data: bytes) -> None:
    assert isinstance(etcd_json.error_from_response(status, data), StoreError)


def test_a_key_that_is_no_utf_8_can_still_be_named() -> None:
    assert etcd_json.to_stored_item(KeyValue(b"/leadsman/\xff")).key == r"/leadsman/\xff"
    assert to_change(EtcdEvent(KeyValue(b"\xfe", mod_revision=3), "DELETE")) == store.Deleted(r"\xfe", 3)


@given(st.binary(max_size=4), st.binary(max_size=6))
def test_a_key_lies_before_the_end_of_a_prefix_exactly_if_it_begins_with_it(prefix: bytes, key: bytes) -> None:
    end = etcd_json.prefix_end(prefix)
    assert (prefix <= key and (key < end or end == b"\0")) is key.startswith(prefix)
