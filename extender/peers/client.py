"""Asks every process behind a name at once, and says which of them did not answer.

A name is that of a headless Service: DNS has the address of each of its pods, so finding them needs no right at the API
server. Where this process is itself behind the name, it leaves itself out.
"""

import asyncio
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import aiohttp
from aiohttp import hdrs
from msgspec import Struct

from extender.peers.late_calls import LateCalls
from leadsman.runtime.client_tls import ClientTls
from leadsman.runtime.daemon_thread import run_in_daemon_thread
from leadsman.runtime.process_name import PROCESS_NAME

ANSWER_SECONDS = 0.5
"""Within which who asks this process for what several know has an answer: a person waits, and so does the page."""

ASK_SECONDS = 0.4
"""Of these, for looking up, connecting and answering together. The rest is for putting the answers together."""

LOOKUP_VALID_SECONDS = 5.0
"""As long as cluster DNS lets a headless Service's addresses be kept."""

MAX_ANSWER_BYTES = 16 << 20

HostPort = tuple[str, int]


class SilentPeer(Struct, frozen=True):
    """A process that did not answer, and why. name: its own, or its address where it never gave one."""

    name: str
    error: str


class PeerAnswer(Struct, frozen=True):
    """name: of the process that answers. status, headers, body: as HTTP has them."""

    name: str
    status: int
    headers: Mapping[str, str]
    body: bytes


class PeerAnswers(Struct, frozen=True):
    """What all that were asked said."""

    answers: Sequence[PeerAnswer] = ()
    silent: Sequence[SilentPeer] = ()


Lookup = Callable[[str, int], Sequence[str]]
"""Takes a name and a port. The addresses behind it; OSError when the name cannot be looked up."""


def look_up(host: str, port: int) -> Sequence[str]:
    """By the system's resolver; blocks."""
    return sorted({str(each[4][0]) for each in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)})


class PeerClient:
    """`async with` it.

    own_port: the port at which this process itself is asked; None: it is not behind any of the names.
    """

    def __init__(
        self,
        hosts: Sequence[HostPort],
        tls: ClientTls | None = None,
        lookup: Lookup = look_up,
        clock: Callable[[], float] = time.monotonic,
        certificate_name: str = "",
    ) -> None:
        """hosts: names and ports. tls: None: plain HTTP. certificate_name: of the certificate that each process shows
        by TLS; "": the host's name."""
        self._certificate_name = certificate_name
        self.own_port: int | None = None
        self._hosts, self._tls, self._lookup, self._clock = tuple(hosts), tls, lookup, clock
        self._addresses: dict[HostPort, tuple[float, Sequence[str]]] = {}
        self._names: dict[HostPort, str] = {}
        self._late_calls = LateCalls()
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> "PeerClient":
        self._session = aiohttp.ClientSession(trust_env=False, cookie_jar=aiohttp.DummyCookieJar())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._session
        await self._late_calls.close()
        await self._session.close()

    async def ask(self, path: str, query: Mapping[str, str], accept: str = "application/json") -> PeerAnswers:
        """What each says to this GET, within ASK_SECONDS. One that owes an answer since then is silent at once."""
        deadline = asyncio.get_running_loop().time() + ASK_SECONDS
        found = await asyncio.gather(*(self._ask_host(host, deadline, path, query, accept) for host in self._hosts))
        return PeerAnswers(
            [each for one in found for each in one.answers], [each for one in found for each in one.silent]
        )

    async def _ask_host(
        self, host: HostPort, deadline: float, path: str, query: Mapping[str, str], accept: str
    ) -> PeerAnswers:
        try:
            addresses = await self._late_calls.run(host, lambda: self._find(host), deadline)
        except (OSError, TimeoutError) as error:
            return PeerAnswers((), [SilentPeer(host[0], f"the name cannot be looked up: {_reason(error)}")])
        ask = [self._ask_address(host, address, deadline, path, query, accept) for address in addresses]
        said = await asyncio.gather(*ask)
        return PeerAnswers(
            [each for each in said if isinstance(each, PeerAnswer)],
            [each for each in said if isinstance(each, SilentPeer)],
        )

    async def _find(self, host: HostPort) -> Sequence[str]:
        """The addresses behind the name but our own."""
        at, addresses = self._addresses.get(host, (float("-inf"), ()))
        if self._clock() - at > LOOKUP_VALID_SECONDS:
            found = await run_in_daemon_thread(lambda: self._lookup(*host), "leadsman-look-up-peers")
            addresses = [each for each in found if host[1] != self.own_port or not is_own_address(each)]
            self._addresses[host] = self._clock(), addresses
        return addresses

    async def _ask_address(
        self, host: HostPort, address: str, deadline: float, path: str, query: Mapping[str, str], accept: str
    ) -> PeerAnswer | SilentPeer:
        place = address, host[1]
        name = self._names.get(place, address)
        try:
            answer = await self._late_calls.run(
                (host, address), lambda: self._get(host, address, path, query, accept), deadline
            )
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            return SilentPeer(name, _reason(error))
        self._names[place] = answer.name
        return answer

    async def _get(self, host: HostPort, address: str, path: str, query: Mapping[str, str], accept: str) -> PeerAnswer:
        assert self._session
        shown = f"[{address}]" if ":" in address else address
        by_tls: dict[str, Any] = (
            {"ssl": self._tls.current, "server_hostname": self._certificate_name or host[0]} if self._tls else {}
        )
        url = f"{'https' if self._tls else 'http'}://{shown}:{host[1]}{path}"
        sent = {hdrs.ACCEPT: accept}
        async with self._session.get(url, params=query, headers=sent, allow_redirects=False, **by_tls) as response:
            body = bytearray()
            async for chunk in response.content.iter_any():
                body += chunk
                if len(body) > MAX_ANSWER_BYTES:
                    raise aiohttp.ClientPayloadError(f"its answer has more than {MAX_ANSWER_BYTES >> 20} MiB")
            return PeerAnswer(
                response.headers.get(PROCESS_NAME, address), response.status, response.headers, bytes(body)
            )


def is_own_address(address: str) -> bool:
    """Whether it is one of this machine's, or of this pod's: its traffic would then come from itself."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((address, 9))  # Of UDP: nothing is sent.
        except OSError:
            return False
        return str(probe.getsockname()[0]) == address


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {1000 * ASK_SECONDS:g} ms"
    return str(error) or type(error).__name__
