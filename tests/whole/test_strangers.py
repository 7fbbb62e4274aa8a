"""What anybody may send to real processes leaves no traceback.

The extender's second port is what agents and controllers have too. Silent connections by the thousand are rows of
`make torture`."""

import asyncio
import random
from pathlib import Path
from urllib.parse import urlsplit

from tests.fuzz.mutation import mutate_document, mutate_text
from tests.whole.conftest import Start

ANSWER_SECONDS = 3.0

CORPUS = Path(__file__).parents[1] / "data" / "fuzz" / "wire_args"

BAD_REQUESTS = (
    b"\r\n\r\n",
    b"GET\r\n\r\n",
    b"GET /\r\n\r\n",
    b"GET / HTTP/9.9\r\nHost: x\r\n\r\n",
    b"GET / HTTP/1.1\r\n\r\n",
    b"G\xffT / HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /\xff HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /\0 HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /filter?pod=%ff%00 HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET //[ HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET http://[::1 HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET http://x:99999/ HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET * HTTP/1.1\r\nHost: x\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n",
    b"CONNECT x HTTP/1.1\r\nHost: x\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: [\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n\r\n",
    b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}",
    b"POST /filter HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n",
    b"POST /filter HTTP/1.1\r\nHost: x\r\nExpect: nonsense\r\nContent-Length: 2\r\n\r\n{}",
    b"GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: \xff;q=x\r\n\r\n",
    b"GET /metrics?name[]=%ff HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
    b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03",
)
"""What is no HTTP request, or hardly one."""


def corpus_requests(mutations: int) -> list[bytes]:
    """Bodies of filter from the inputs of its harness, and mutations of each from a fixed seed."""
    rng, bodies = random.Random(7), list[bytes]()
    for path in sorted(CORPUS.iterdir()):
        data = path.read_bytes()[:8192]
        bodies += [data, *(mutate_document(data, rng) or mutate_text(data, rng) for _ in range(mutations))]
    head = b"POST /filter HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: "
    return [head + str(len(body)).encode() + b"\r\n\r\n" + body for body in bodies]


async def send_all(url: str, requests: list[bytes]) -> list[bytes]:
    """The beginning of each answer; b"" where none comes because the request never ends."""
    port, slots = urlsplit(url).port or 0, asyncio.Semaphore(20)

    async def answer(request: bytes) -> bytes:
        async with slots:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                writer.write(request)
                async with asyncio.timeout(ANSWER_SECONDS):
                    return await reader.read(65_536)
            except (ConnectionError, TimeoutError):
                return b""
            finally:
                writer.transport.abort()

    return await asyncio.gather(*map(answer, requests))


async def test_no_request_leaves_a_traceback_in_the_extender_s_log(start: Start) -> None:
    process = start("extender").ready()
    answers = await send_all(process.url, [*BAD_REQUESTS, *corpus_requests(20)])
    answers += await send_all(process.ops_url, list(BAD_REQUESTS))
    assert [answer[:80] for answer in answers if answer.startswith(b"HTTP/1.1 5")] == []
    assert "refused a malformed request from 127.0.0.1" in process.log
    assert process.stop() == 0
    assert "Traceback" not in process.log
