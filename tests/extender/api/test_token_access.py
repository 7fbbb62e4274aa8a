"""Who an API server says may read."""

from collections.abc import AsyncIterator

import pytest

from extender.api.parameters import RequestError
from extender.api.token_access import ATTEMPTS_AT_ONCE, ATTEMPTS_PER_SECOND, GRANTED_SECONDS, TokenAccess
from leadsman.kube.access import ApiAccess
from leadsman.kube.client import ApiClient
from leadsman.runtime.http_server import serve
from tests.extender.api.reviewing_api import GROUP, ReviewingApi


@pytest.fixture
def now() -> list[float]:
    return [0.0]


@pytest.fixture
async def access(reviewing: ReviewingApi, now: list[float]) -> AsyncIterator[TokenAccess]:
    async with serve(reviewing.app(), "127.0.0.1", 0) as port, ApiClient(ApiAccess(f"http://127.0.0.1:{port}")) as api:
        yield TokenAccess(api, lambda: now[0])


async def status_of(access: TokenAccess, token: str, verb: str = "get") -> int:
    try:
        await access.check(token, verb)
    except RequestError as error:
        return error.status
    return 200


async def test_a_user_with_the_right_reads_and_may_not_post(access: TokenAccess, reviewing: ReviewingApi) -> None:
    assert await status_of(access, "of-a-reader") == 200
    assert await status_of(access, "of-a-reader", "post") == 403
    asked = reviewing.reviews[1]
    assert (asked["groups"], asked["uid"], asked["extra"]) == ([GROUP], "u-1", {"scopes": ["read"]})


async def test_a_user_without_the_right_is_refused(access: TokenAccess) -> None:
    assert await status_of(access, "of-a-stranger") == 403


async def test_a_token_that_nobody_knows_is_refused(access: TokenAccess) -> None:
    assert await status_of(access, "of-nobody") == 401


async def test_a_token_for_another_audience_is_refused(access: TokenAccess, reviewing: ReviewingApi) -> None:
    reviewing.audiences = ["https://kubernetes.default.svc"]
    assert await status_of(access, "of-a-reader") == 401


async def test_a_token_too_long_to_be_one_is_not_asked_about(access: TokenAccess, reviewing: ReviewingApi) -> None:
    assert await status_of(access, "x" * 20_000) == 401
    assert reviewing.reviews == []


async def test_a_granted_token_is_asked_about_again_after_a_time(
    access: TokenAccess, reviewing: ReviewingApi, now: list[float]
) -> None:
    assert await status_of(access, "of-a-reader") == 200
    reviewing.rights.clear()
    assert await status_of(access, "of-a-reader") == 200
    now[0] += GRANTED_SECONDS
    assert await status_of(access, "of-a-reader") == 403


async def test_strangers_tokens_are_asked_about_so_many_a_second_and_a_reader_goes_on(
    access: TokenAccess, reviewing: ReviewingApi, now: list[float]
) -> None:
    assert await status_of(access, "of-a-reader") == 200
    statuses = [await status_of(access, f"of-stranger-{each}") for each in range(ATTEMPTS_AT_ONCE + 5)]
    assert statuses == [401] * (ATTEMPTS_AT_ONCE - 1) + [429] * 6
    assert await status_of(access, "of-a-reader") == 200
    now[0] += 1 / ATTEMPTS_PER_SECOND
    assert await status_of(access, "of-nobody") == 401


async def test_an_api_server_that_is_away_lets_nobody_in() -> None:
    async with ApiClient(ApiAccess("http://127.0.0.1:1"), deadline_seconds=5.0) as api:
        assert await status_of(TokenAccess(api), "of-a-reader") == 503
