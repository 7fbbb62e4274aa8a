"""The largest bodies that a client with kube-scheduler's certificate may send, to a real extender."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import pytest

from tests.whole.test_large_objects import EXTENDER_BYTES
from tests.whole.test_strangers import MIB

if TYPE_CHECKING:
    from tests.leadsman_process import LeadsmanProcess
    from tests.whole.conftest import Start, Until

LOADED_BYTES = 220 * MIB
"""What an extender with 5,000 nodes in a storm of bounds has beyond one without a node (measured: 270 MiB in all)."""

POD = b'{"metadata":{"name":"p"}}'


def post(process: "LeadsmanProcess", verb: str, body: bytes) -> tuple[int, bytes]:
    """0 when the connection is cut, as it is for a body that is refused while it comes."""
    try:
        with urlopen(
            Request(f"{process.url}/{verb}", body, {"Content-Type": "application/json"}), timeout=60
        ) as answer:
            return answer.status, answer.read()
    except HTTPError as error:
        return error.code, error.read()
    except (URLError, ConnectionError):
        return 0, b""


def nodes(items: bytes) -> bytes:
    return b'{"Pod":%b,"Nodes":{"items":[%b]}}' % (POD, items)


def full_nodes(count: int, node_bytes: int) -> bytes:
    item = b'{"metadata":{"name":"n%d","annotations":{"note":"%b"}}}'
    return nodes(b",".join(item % (number, b"x" * node_bytes) for number in range(count)))


def hostile() -> Iterator[tuple[str, bytes]]:
    """Verb and body, of 50 to 95 MB each."""
    yield "filter", nodes(b"{}," * 17_000_000 + b"{}")
    yield "filter", nodes(b"0," * 25_000_000 + b"0")
    yield "prioritize", b'{"Pod":%b,"NodeNames":[%b"n"]}' % (POD, b'"n",' * 12_500_000)
    yield "filter", b'{"Pod":{"metadata":{"name":"p","labels":{%b"a":""}}}}' % (b'"a":"",' * 7_000_000)
    yield "filter", full_nodes(24, 3_900_000)
    yield "filter", nodes(b'{"metadata":{"name":"a","x":"%b"}}' % ("\U0001f600".encode() * 20_000_000))
    yield "preempt", b'{"Pod":%b,"NodeNameToMetaVictims":{%b"a":{}}}' % (POD, b'"a":{},' * 8_000_000)
    yield "preempt", b'{"Pod":%b,"NodeNameToVictims":{"a":{"Pods":[%b{}]}}}' % (POD, b"{}," * 17_000_000)
    yield "bind", b'{"PodName":"p","PodUID":"%b"}' % (b"x" * 90_000_000)
    yield "filter", bytes(60_000_000)


def test_bodies_of_any_shape_leave_the_extender_its_memory(start: "Start", until: "Until") -> None:
    """One after another, and four at a time. Before, the first took 1.3 GB."""
    process = start("extender")
    until(lambda: process.get("/readyz")[0] == 200, "ready")
    for verb, body in hostile():
        assert post(process, verb, body)[0] in (0, 200, 400, 404, 413)
    with ThreadPoolExecutor(4) as pool:
        statuses = list(pool.map(lambda asked: post(process, *asked)[0], hostile()))
    assert set(statuses) <= {0, 200, 400, 404, 413, 429}
    assert process.child.poll() is None
    assert process.peak_rss_bytes < EXTENDER_BYTES - LOADED_BYTES


@pytest.mark.parametrize(("count", "node_bytes"), [(5_000, 9_000), (5_000, 16_000)])
def test_5_000_full_nodes_are_answered_again_and_again(
    start: "Start", until: "Until", count: int, node_bytes: int
) -> None:
    process = start("extender")
    until(lambda: process.get("/readyz")[0] == 200, "ready")
    body = full_nodes(count, node_bytes)
    for _ in range(5):
        status, answer = post(process, "filter", body)
        assert (status, len(json.loads(answer)["Nodes"]["items"])) == (200, count)
        assert post(process, "prioritize", body)[0] == 200
    assert process.peak_rss_bytes < EXTENDER_BYTES - LOADED_BYTES


def test_refusals_say_what_to_do(start: "Start", until: "Until", tmp_path: Path) -> None:
    process = start("extender")
    until(lambda: process.get("/readyz")[0] == 200, "ready")
    status, text = post(process, "filter", nodes(b"{}," * 20_000 + b"{}"))
    assert (status, text) == (400, b"$.Nodes.items: more than 20000 items; must have at most as many\n")
    status, text = post(
        process, "preempt", b'{"Pod":%b,"NodeNameToMetaVictims":{%b"a":{}}}' % (POD, b'"a":{},' * 10**6)
    )
    assert status == 413
    assert b"set nodeCacheCapable: true" in text
