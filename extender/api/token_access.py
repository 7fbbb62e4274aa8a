"""Asks the API server whose a bearer token is, and whether that user may read the page.

The token must be for our own audience, so that what is sent here opens nothing else; the right is that to the
non-resource URL /leadsman/api (`kubectl create clusterrole X --verb=get,post --non-resource-url=/leadsman/api`).
kube-scheduler's listener knows neither: it asks for a client certificate.
"""

import time
from collections.abc import Callable
from hashlib import sha256
from typing import Any

from msgspec import Struct

from extender.api.parameters import RequestError
from leadsman.kube.client import ApiClient
from leadsman.kube.errors import ApiError
from leadsman.kube.token_review import TokenUser, review_token
from leadsman.runtime.lru import LruCache
from leadsman.runtime.token_bucket import TokenBucket

AUDIENCE = "leadsman-page"
URL = "/leadsman/api"

GRANTED_SECONDS = 30.0
"""For which a token that was let in is not asked about again: a right that is taken away ends within this time."""

ATTEMPTS_PER_SECOND, ATTEMPTS_AT_ONCE = 5.0, 20
"""Of tokens that are not let in yet: what strangers send must not load the API server through us."""

_REVIEWS_PATH = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_LONGEST_TOKEN = 16_384
_MAX_TOKENS = 1_000


class _AccessStatus(Struct, frozen=True):
    allowed: bool = False
    reason: str = ""


class _AccessReview(Struct, frozen=True):
    status: _AccessStatus = _AccessStatus()


class TokenAccess:
    """clock: monotonic seconds. A refusal is never remembered."""

    def __init__(self, api: ApiClient, clock: Callable[[], float] = time.monotonic) -> None:
        self._api, self._clock = api, clock
        self._granted_until = LruCache[bytes, float](_MAX_TOKENS)
        self._attempts = TokenBucket(ATTEMPTS_PER_SECOND, ATTEMPTS_AT_ONCE, clock)

    async def check(self, token: str, verb: str) -> None:
        """RequestError 401 for a token that the API server does not know, 403 without the right, 429 when too many are
        tried, 503 when the API server does not say."""
        key = sha256(f"{verb} {token}".encode()).digest()
        if (self._granted_until.get(key) or 0.0) > self._clock():
            return
        if not self._attempts.try_take():
            raise RequestError(429, f"more than {ATTEMPTS_PER_SECOND:g} tokens a second are tried; wait some seconds")
        try:
            user = await self._user(token)
            await self._check_right(user, verb)
        except ApiError as error:
            raise RequestError(503, f"the API server does not say whose the token is: {error}") from error
        self._granted_until.put(key, self._clock() + GRANTED_SECONDS)

    async def _user(self, token: str) -> TokenUser:
        status = await review_token(self._api, token, AUDIENCE) if len(token) <= _LONGEST_TOKEN else None
        if status is None or not status.authenticated or AUDIENCE not in status.audiences:
            allowed = f"a token of this cluster for the audience {AUDIENCE}: kubectl create token --audience={AUDIENCE}"
            raise RequestError(401, "the API server does not accept this token", "Authorization", "", allowed)
        return status.user

    async def _check_right(self, user: TokenUser, verb: str) -> None:
        spec: dict[str, Any] = {
            "user": user.username,
            "uid": user.uid,
            "groups": user.groups,
            "extra": user.extra,
            "nonResourceAttributes": {"path": URL, "verb": verb},
        }
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
        review = await self._api.create(_REVIEWS_PATH, body, _AccessReview)
        if not review.status.allowed:
            allowed = f"a user with the right to {verb} the non-resource URL {URL}"
            raise RequestError(403, f"{user.username} may not {verb} {URL}", "Authorization", user.username, allowed)
