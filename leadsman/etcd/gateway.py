"""The gateway: stands before a member of etcd, and lets each of our processes do what its role may, and no more.

It runs in the member's pod, and is all that is reached from outside: etcd itself listens to clients on the pod's own
loopback. A process shows its service account token; its role is the token's, an agent's the one of its node
(`clients`), and what a role may do is in `roles`. etcd's own users and roles are not used: etcd
applies a request only where a member's auth revision agrees, and members were found to differ for good after that
(etcd-io/etcd#11651, #13503, #13976, #14571).

One agent's token stops nobody else: `clients` counts its requests, bytes, leases and keys.
"""

import logging
from collections.abc import Iterator, Mapping, Set
from functools import partial

import aiohttp
import msgspec
from aiohttp import web
from prometheus_client.core import Metric

from leadsman.etcd.clients import Client, Clients
from leadsman.etcd.roles import READ_WRITE, Authorised, Malformed, NoToken, Refused, Role, authorise
from leadsman.runtime.connections import ServerLimits
from leadsman.runtime.log_limit import LogLimit
from leadsman.runtime.scrape import counter
from leadsman.state.etcd_json import RangeResponse, decode_response
from leadsman.state.store import StoreError

log = logging.getLogger(__name__)
log.addFilter(LogLimit())

LIMITS = ServerLimits(max_proven_connections=4096)
"""5,000 agents, of whom a member has a third, or half while another is away. 4,000 connections take 106 MB."""

LARGEST_REQUEST_BYTES = 256 << 10
"""The largest that is sent, 128 rewards of an agent whose etcd lost them, takes 90 KiB."""

_LONGEST_TOKEN = 16_384
_WATCH = "/v3/watch"
_LEADER_HEADER = "Grpc-Metadata-hasleader"


class Gateway:
    """Answers for the member at `etcd`, a URL. session: for calls of it."""

    def __init__(self, etcd: str, clients: Clients, session: aiohttp.ClientSession) -> None:
        self._etcd, self._clients, self._session = etcd, clients, session
        refusals: list[type[Refused]] = [Refused, *Refused.__subclasses__()]
        self._answered = {"ok": 0} | {each.outcome: 0 for each in refusals}

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Returns etcd's response, or a refusal in etcd's form."""
        try:
            client = await self._client(request)
            response = await self._of_client(client, request)
        except Refused as refusal:
            self._answered[refusal.outcome] += 1
            log.warning("refused %s of %s: %s", request.path, request.remote, refusal)
            body = msgspec.json.encode({"code": refusal.code, "message": str(refusal)})
            return web.Response(status=refusal.status, body=body, content_type="application/json")
        self._answered["ok"] += 1
        return response

    def families(self) -> Iterator[Metric]:
        yield counter(
            "leadsman_etcd_gateway_requests", "Requests that were answered or refused.", self._answered, "outcome"
        )

    async def _client(self, request: web.Request) -> Client:
        token = _bearer_token(request.headers)
        if not token:
            raise NoToken("permission denied: send `Authorization: Bearer` and your service account's token")
        return await self._clients.of_token(token, request.remote or "")

    async def _of_client(self, client: Client, request: web.Request) -> web.StreamResponse:
        client.take_request()
        client.open_requests += 1
        try:
            wanted = authorise(client.role, request.path, await request.read())
            if client.needs_recount(wanted):
                await client.recount(partial(self._keys_of, client.role))
            client.take(request.path, wanted)
            try:
                return await self._forward(request, client, wanted)
            finally:
                client.settle(wanted)
        except web.HTTPRequestEntityTooLarge as error:
            raise Malformed(f"request of more than {LARGEST_REQUEST_BYTES} bytes") from error
        finally:
            client.open_requests -= 1

    async def _keys_of(self, role: Role) -> Set[bytes]:
        """Returns the keys in etcd that the role may write."""
        found = set[bytes]()
        try:
            for each in role.permissions:
                if each.kind == READ_WRITE:
                    wanted = {"key": each.key.encode(), "range_end": each.range_end.encode(), "keys_only": True}
                    url, body = f"{self._etcd}/v3/kv/range", msgspec.json.encode(wanted)
                    async with self._session.post(url, data=body, raise_for_status=True) as answer:
                        listed = decode_response(await answer.read(), RangeResponse)
                    found.update(item.key for item in listed.kvs)
        except (aiohttp.ClientError, TimeoutError, OSError, StoreError) as error:
            raise Refused(f"this member of etcd does not answer: {type(error).__name__}") from error
        return found

    async def _forward(self, request: web.Request, client: Client, wanted: Authorised) -> web.StreamResponse:
        headers = {_LEADER_HEADER: request.headers[_LEADER_HEADER]} if _LEADER_HEADER in request.headers else {}
        try:
            async with self._session.post(self._etcd + request.path, data=wanted.body, headers=headers) as answered:
                is_done = answered.status == web.HTTPOk.status_code
                if request.path == _WATCH and is_done:
                    return await _passed_on(request, answered)
                answer = await answered.read()
                if is_done:
                    client.count_deletes(wanted, answer)
                return web.Response(status=answered.status, body=answer, content_type="application/json")
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Refused(f"this member of etcd does not answer: {type(error).__name__}") from error


async def _passed_on(request: web.Request, answered: aiohttp.ClientResponse) -> web.StreamResponse:
    """Returns a stream, for as long as both sides hold it."""
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    await response.prepare(request)
    try:
        async for chunk in answered.content.iter_any():
            await response.write(chunk)
    except (aiohttp.ClientError, OSError):
        response.force_close()  # etcd ended within the stream, and the client must see that it is no regular end.
    return response


def create_app(gateway: Gateway) -> web.Application:
    app = web.Application(client_max_size=LARGEST_REQUEST_BYTES)
    app.router.add_post("/v3/{call:.+}", gateway.answer)
    return app


def create_session() -> aiohttp.ClientSession:
    """Makes the session for calls of the member beside us. It has no total time limit: a watch lasts; clients have
    limits of their own."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=2.0),
    )


def _bearer_token(headers: Mapping[str, str]) -> str:
    scheme, _, token = headers.get("Authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" and len(token) <= _LONGEST_TOKEN else ""
