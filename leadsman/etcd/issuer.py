"""The issuer: gives each of our processes its own user and password of etcd, for its own service account token.

An agent gets its node's credential and no other: the node is the one that the API server wrote into the token.
"""

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from pathlib import Path

import msgspec
from aiohttp import web
from msgspec import Struct

from leadsman.etcd.access_control import CONTROLLER, EXTENDER, AccessControl, EtcdRole, agent_role
from leadsman.kube.access import ApiAccess
from leadsman.kube.client import ApiClient
from leadsman.kube.errors import ApiError
from leadsman.runtime.http_server import create_ops_app, good_unless, serve, track_request
from leadsman.runtime.log_limit import LogLimit
from leadsman.runtime.lru import LruCache
from leadsman.runtime.problem_log import ProblemLog
from leadsman.runtime.process import run_tasks
from leadsman.runtime.scrape import create_registry
from leadsman.runtime.server_tls import ServerTls
from leadsman.runtime.token_bucket import TokenBucket
from leadsman.state import keys
from leadsman.state.etcd_credentials import CREDENTIAL_PATH, Credential
from leadsman.state.etcd_http import EtcdAccess
from leadsman.state.store import StoreError

# Which role of etcd a service account token gives a right to: whose it is the API server says (TokenReview).

_PATH = "/apis/authentication.k8s.io/v1/tokenreviews"

AUDIENCE = "leadsman-etcd-issuer"
"""Of tokens for the issuer. A token for the API server has another one, and is refused."""

NODE_CLAIM = "authentication.kubernetes.io/node-name"
"""In a bound token of a pod, from Kubernetes 1.30 on. KEP-4193."""


class TokenUser(Struct, frozen=True):
    """Whose token it is. extra: claims of the token, each with its values."""

    username: str = ""
    extra: Mapping[str, tuple[str, ...]] = {}


class TokenReviewStatus(Struct, frozen=True):
    """What the API server says of a token. audiences: of the token, among those that were asked for."""

    authenticated: bool = False
    user: TokenUser = TokenUser()
    audiences: tuple[str, ...] = ()


class TokenReview(Struct, frozen=True):
    """A TokenReview of authentication.k8s.io/v1."""

    status: TokenReviewStatus = TokenReviewStatus()


async def review_token(api: ApiClient, token: str) -> TokenReviewStatus:
    """ApiError when the API server does not say."""
    body = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "spec": {"token": token, "audiences": [AUDIENCE]},
    }
    return (await api.create(_PATH, body, TokenReview)).status


class TokenRefused(Exception):
    """The token gives no right to a credential. The text says why, without the token."""


class BadNodeName(TokenRefused):
    """The token names a node as no API server does."""


def role_of(status: TokenReviewStatus, namespace: str) -> EtcdRole:
    """The one role that the token gives a right to. TokenRefused. namespace: of our service accounts."""
    if not status.authenticated:
        raise TokenRefused("the API server does not know this token: expired, of a deleted pod, or of another cluster")
    if AUDIENCE not in status.audiences:
        raise TokenRefused(f"the token is not for the audience {AUDIENCE}")
    # A person may have the bare name of one of our service accounts.
    kind, name = f"system:serviceaccount:{namespace}:", status.user.username
    account = name.removeprefix(kind) if name.startswith(kind) else ""
    if account == "leadsman-agent":
        return agent_role(_node(status.user))
    roles = {"leadsman-extender": EXTENDER, "leadsman-controller": CONTROLLER}
    if account not in roles:
        raise TokenRefused(f"{status.user.username} has no part in etcd")
    return roles[account]


def _node(user: TokenUser) -> str:
    nodes = user.extra.get(NODE_CLAIM, ())
    if len(nodes) != 1:
        raise TokenRefused(
            f"the token names no node ({NODE_CLAIM}); Kubernetes 1.30 or newer puts it into pods' tokens"
        )
    if not keys.is_node_name(nodes[0]):
        raise BadNodeName(f"the token names {nodes[0]!r}, which is no node's name")
    return nodes[0]


log = logging.getLogger(__name__)
client_log = logging.getLogger(f"{__name__}.clients")
client_log.addFilter(LogLimit())

REQUESTS_PER_SECOND, REQUESTS_AT_ONCE = 10.0, 100
"""From one address. A rollout of 1,000 agents comes at 10 % at once, by one address where a network translates theirs.
Each request is a TokenReview and four calls of etcd."""

MOST_ADDRESSES = 4096
"""Whose requests are counted; beyond twice as many, those that asked longest ago begin again."""

DEADLINE_SECONDS = 5.0
ENABLE_EVERY_SECONDS = 1.0
_LONGEST_TOKEN = 16_384


class IssuerSettings(Struct, frozen=True):
    """What the issuer runs with.

    etcd: access with root's password. namespace: of our service accounts.
    listen, ops_listen: host and port of credentials, by TLS, and of health and metrics.
    """

    etcd: EtcdAccess
    api: ApiAccess
    namespace: str
    certificate: Path
    key: Path
    listen: tuple[str, int]
    ops_listen: tuple[str, int]


class Issuer:
    """Answers requests for a credential. problem: why etcd is not locked now; "" once it is."""

    def __init__(self, control: AccessControl, api: ApiClient, namespace: str) -> None:
        self._control, self._api, self._namespace = control, api, namespace
        self._buckets = LruCache[str, TokenBucket](MOST_ADDRESSES)
        self.problem = ProblemLog(
            log, "cannot see to etcd's access control; no credentials are issued", "etcd's access control is on"
        )
        self.problem.text = "not asked etcd yet"

    async def keep_enabled(self) -> None:
        """Switches etcd's access control on whenever it is off, until cancelled: a new etcd begins without."""
        while True:
            try:
                await self._control.enable()
            except (StoreError, ValueError) as error:
                self.problem.report(error)
            else:
                self.problem.clear()
            await asyncio.sleep(ENABLE_EVERY_SECONDS)

    async def answer(self, request: web.Request) -> web.Response:
        """200 with the credential; 400, 401, 403 with the reason, 429 for too many, 503 when nobody can say."""
        token = _bearer_token(request.headers)
        if not token:
            return _refusal(401, "send `Authorization: Bearer` with the token of your service account")
        if not self._bucket_of(request.remote or "").try_take():
            return _refusal(429, f"more than {REQUESTS_PER_SECOND:g} requests a second from one address; try again")
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                role = role_of(await review_token(self._api, token), self._namespace)
                credential = Credential(role.name, await self._control.password(role))
        except TokenRefused as error:
            client_log.warning("refused a credential to %s: %s", request.remote, error)
            return _refusal(400 if isinstance(error, BadNodeName) else 403, str(error))
        except (ApiError, StoreError, TimeoutError) as error:
            client_log.warning("cannot issue a credential now: %s: %s", type(error).__name__, error)
            return _refusal(503, f"cannot say now: {type(error).__name__}")
        return web.Response(body=msgspec.json.encode(credential), content_type="application/json")

    def _bucket_of(self, address: str) -> TokenBucket:
        """A bucket for each address: one that sends junk leaves the others their requests."""
        bucket = self._buckets.get(address)
        if bucket is None:
            bucket = TokenBucket(REQUESTS_PER_SECOND, REQUESTS_AT_ONCE)
            self._buckets.put(address, bucket)
        return bucket


async def run(settings: IssuerSettings, stop: asyncio.Event) -> None:
    """Runs until `stop`."""
    control = AccessControl(settings.etcd)
    tls = ServerTls(settings.certificate, settings.key)
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(control.close)
        api = await stack.enter_async_context(ApiClient(settings.api, deadline_seconds=DEADLINE_SECONDS))
        issuer = Issuer(control, api, settings.namespace)
        ops = create_ops_app(create_registry(), lambda: good_unless(""), lambda: good_unless(issuer.problem.text))
        await stack.enter_async_context(serve(ops, *settings.ops_listen))
        await stack.enter_async_context(serve(create_app(issuer), *settings.listen, tls=tls))
        log.info("issuer of etcd's credentials on https://%s:%d", *settings.listen)
        await run_tasks({"access control": issuer.keep_enabled(), "certificates": tls.follow()}, stop)


def create_app(issuer: Issuer) -> web.Application:
    app = web.Application(middlewares=[track_request])
    app.router.add_post(CREDENTIAL_PATH, issuer.answer)
    return app


def _bearer_token(headers: Mapping[str, str]) -> str:
    scheme, _, token = headers.get("Authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" and len(token) <= _LONGEST_TOKEN else ""


def _refusal(status: int, reason: str) -> web.Response:
    return web.Response(status=status, text=f"{reason}\n")
