"""Whose request it is, and how much each process may ask: what the gateway knows of those who call it.

A token is reviewed by the API server when it is seen for the first time, and again every REVIEW_AGAIN_SECONDS. So a
stolen token ends with its pod, or at the latest when it expires (an hour in the manifests). While the API server does
not answer, a token that it knew within that hour stays known.
"""

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable, Mapping, Set

import msgspec
from msgspec import Struct

from leadsman.etcd.roles import CONTROLLER, EXTENDER, MEMBER, Authorised, Forbidden, Refused, Role, TooMuch, agent_role
from leadsman.kube.client import ApiClient
from leadsman.kube.errors import ApiError
from leadsman.runtime.lru import LruCache
from leadsman.runtime.token_bucket import TokenBucket
from leadsman.state import keys

_PATH = "/apis/authentication.k8s.io/v1/tokenreviews"

AUDIENCE = "leadsman-etcd"
"""Tokens for etcd have this audience. A token for the API server has another one, and is refused."""

NODE_CLAIM = "authentication.kubernetes.io/node-name"
"""The claim that names the node in a pod's bound token, from Kubernetes 1.30 on (KEP-4193)."""


class TokenUser(Struct, frozen=True):
    """Whose token it is. extra: claims of the token, each with its values."""

    username: str = ""
    extra: Mapping[str, tuple[str, ...]] = {}


class TokenReviewStatus(Struct, frozen=True):
    """The API server's review of a token. audiences: of the token, among those that were asked for."""

    authenticated: bool = False
    user: TokenUser = TokenUser()
    audiences: tuple[str, ...] = ()


class TokenReview(Struct, frozen=True):
    """Mirrors a TokenReview of authentication.k8s.io/v1."""

    status: TokenReviewStatus = TokenReviewStatus()


async def review_token(api: ApiClient, token: str) -> TokenReviewStatus:
    """Raises ApiError when the API server does not say."""
    body = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "spec": {"token": token, "audiences": [AUDIENCE]},
    }
    return (await api.create(_PATH, body, TokenReview)).status


def role_of(status: TokenReviewStatus, namespace: str) -> Role:
    """Returns the one role that the token gives a right to. Raises Forbidden. namespace: of our service accounts."""
    if not status.authenticated:
        raise Forbidden("the API server does not know this token: expired, of a deleted pod, or of another cluster")
    if AUDIENCE not in status.audiences:
        raise Forbidden(f"the token is not for the audience {AUDIENCE}")
    # A person may have the bare name of one of our service accounts.
    kind, name = f"system:serviceaccount:{namespace}:", status.user.username
    account = name.removeprefix(kind) if name.startswith(kind) else ""
    if account == "leadsman-agent":
        return agent_role(_node(status.user))
    roles = {"leadsman-extender": EXTENDER, "leadsman-controller": CONTROLLER, "leadsman-etcd": MEMBER}
    if account not in roles:
        raise Forbidden(f"{status.user.username} has no part in etcd")
    return roles[account]


def _node(user: TokenUser) -> str:
    nodes = user.extra.get(NODE_CLAIM, ())
    if len(nodes) != 1:
        raise Forbidden(f"the token names no node ({NODE_CLAIM}); Kubernetes 1.30 or newer puts it into pods' tokens")
    if not keys.is_node_name(nodes[0]):
        raise Forbidden(f"the token names {nodes[0]!r}, which is no node's name")
    return nodes[0]


REVIEW_AGAIN_SECONDS = 300.0
TRUSTED_WITHOUT_REVIEW_SECONDS = 3600.0
"""A token is trusted for so long without a review: as long as the manifests' tokens are valid."""

REVIEWS_PER_SECOND, REVIEWS_AT_ONCE = 1.0, 20
"""Tokens of one address are reviewed this often: a node's agent starts now and then; who shows ever new tokens must not
keep the API server busy."""

REQUESTS_PER_SECOND, REQUESTS_AT_ONCE = 10.0, 200
"""One agent may send this many requests. It sends one or two a second; a start takes some dozens."""

BYTES_PER_SECOND, BYTES_AT_ONCE = 8192.0, 1 << 20
"""One agent's requests may have this size. Its largest report, 11 KiB in base64, goes every 5 s; 512 rewards take 360
KiB."""

LEASES_PER_SECOND, LEASES_AT_ONCE = 0.1, 10
"""One agent may take so many leases: it has one, and takes another only when it lost that."""

MOST_KEYS = 1100
"""One agent may have written this many keys and not deleted them since: its node's few records, rewards of 512 pod
types, 16 shards of what was counted, and as many again that came while others went."""

STREAMS_AT_ONCE = 8
_MOST_TOKENS, _MOST_ADDRESSES, _MOST_CLIENTS = 20_000, 10_000, 10_000


class _TransactionAnswer(Struct, frozen=True):
    """etcd's gateway leaves out what is false."""

    succeeded: bool = False


class Client:
    """A process of ours, and what its role may ask for yet."""

    def __init__(self, role: Role, clock: Callable[[], float] = time.monotonic) -> None:
        self.role = role
        self.open_requests = 0
        self._requests = TokenBucket(REQUESTS_PER_SECOND, REQUESTS_AT_ONCE, clock)
        self._bytes = TokenBucket(BYTES_PER_SECOND, BYTES_AT_ONCE, clock)
        self._leases = TokenBucket(LEASES_PER_SECOND, LEASES_AT_ONCE, clock)
        self._written = set[bytes]()
        self._open_writes, self._unsettled = list[Set[bytes]](), list[Set[bytes]]()
        self._counting = asyncio.Lock()

    def take_request(self) -> None:
        """Before its body is read. Raises TooMuch."""
        if not self.role.is_limited:
            return
        if self.open_requests >= STREAMS_AT_ONCE:
            raise TooMuch(f"{self.role.name} has {STREAMS_AT_ONCE} requests open")
        if not self._requests.try_take():
            raise TooMuch(f"{self.role.name} sends more than {REQUESTS_PER_SECOND:g} requests a second")

    def needs_recount(self, request: Authorised) -> bool:
        """Tells whether it would have written too many keys with this request. Some may be gone: others, and the
        gateways of other members, delete them too."""
        return self.role.is_limited and len(self._written | request.written) > MOST_KEYS

    async def recount(self, stored: Callable[[], Awaitable[Set[bytes]]]) -> None:
        """Counts the keys in etcd again. What a write under way brings may be missing in `stored` and counts besides:
        else writes side by side would each have the others forgotten."""
        async with self._counting:
            self._unsettled = list(self._open_writes)
            self._written = set(await stored()).union(*self._unsettled)

    def take(self, path: str, request: Authorised) -> None:
        """Before it is sent on. Raises TooMuch."""
        if not self.role.is_limited:
            return
        if not self._bytes.try_take(len(request.body)):
            raise TooMuch(f"{self.role.name} sends more than {BYTES_PER_SECOND:g} bytes a second")
        if path == "/v3/lease/grant" and not self._leases.try_take():
            raise TooMuch(f"{self.role.name} takes more leases than one in {1 / LEASES_PER_SECOND:g} s")
        written = self._written | request.written
        if len(written) > MOST_KEYS:
            raise TooMuch(f"{self.role.name} writes more than {MOST_KEYS} keys")
        self._written = written
        self._open_writes.append(request.written)
        if self._counting.locked():
            self._unsettled.append(request.written)

    def settle(self, request: Authorised) -> None:
        """After it was sent on, whatever came of it."""
        if self.role.is_limited:
            self._open_writes.remove(request.written)

    def count_deletes(self, request: Authorised, answer: bytes) -> None:
        """After etcd did it. What the other branch of the transaction would have deleted is still there."""
        if request.deleted and self.role.is_limited:
            self._written -= request.deleted[msgspec.json.decode(answer, type=_TransactionAnswer).succeeded]


class Clients:
    """Finds the process that a token belongs to. namespace: of our service accounts."""

    def __init__(self, api: ApiClient, namespace: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._api, self._namespace, self._clock = api, namespace, clock
        self._roles = LruCache[bytes, tuple[Role | None, float]](_MOST_TOKENS)
        self._addresses = LruCache[str, TokenBucket](_MOST_ADDRESSES)
        self._clients = LruCache[str, Client](_MOST_CLIENTS)

    async def of_token(self, token: str, address: str) -> Client:
        """Returns who shows the token. Raises Refused when the token gives no right, the API server does not say now,
        or an address shows too many tokens."""
        role = await self._role(token, address)
        client = self._clients.get(role.name)
        if client is None:
            client = Client(role, self._clock)
            self._clients.put(role.name, client)
        return client

    async def _role(self, token: str, address: str) -> Role:
        digest, now = hashlib.sha256(token.encode()).digest(), self._clock()
        role, reviewed_at = self._roles.get(digest) or (None, float("-inf"))
        if role and now - reviewed_at < REVIEW_AGAIN_SECONDS:
            return role
        if role is None:
            self._take_review(address)
        try:
            found = role_of(await review_token(self._api, token), self._namespace)
        except Forbidden:
            if role:
                self._roles.put(digest, (None, now))
            raise
        except ApiError as error:
            if role and now - reviewed_at < TRUSTED_WITHOUT_REVIEW_SECONDS:
                return role
            raise Refused(f"cannot say now whose token it is: {type(error).__name__}") from error
        self._roles.put(digest, (found, now))
        return found

    def _take_review(self, address: str) -> None:
        bucket = self._addresses.get(address)
        if bucket is None:
            bucket = TokenBucket(REVIEWS_PER_SECOND, REVIEWS_AT_ONCE, self._clock)
            self._addresses.put(address, bucket)
        if not bucket.try_take():
            raise TooMuch(f"{address} shows more than {REVIEWS_PER_SECOND:g} new tokens a second")
