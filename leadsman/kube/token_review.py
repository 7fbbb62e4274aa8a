"""Whose a token is, as the API server says (TokenReview of authentication.k8s.io/v1)."""

from collections.abc import Mapping

from msgspec import Struct

from leadsman.kube.client import ApiClient

_PATH = "/apis/authentication.k8s.io/v1/tokenreviews"


class TokenUser(Struct, frozen=True):
    """Whose token it is. extra: claims of the token, each with its values."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = {}


class TokenReviewStatus(Struct, frozen=True):
    """What the API server says of a token. audiences: of the token, among those that were asked for."""

    authenticated: bool = False
    user: TokenUser = TokenUser()
    audiences: tuple[str, ...] = ()


class TokenReview(Struct, frozen=True):
    """A TokenReview of authentication.k8s.io/v1."""

    status: TokenReviewStatus = TokenReviewStatus()


async def review_token(api: ApiClient, token: str, audience: str) -> TokenReviewStatus:
    """ApiError when the API server does not say."""
    body = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "spec": {"token": token, "audiences": [audience]},
    }
    return (await api.create(_PATH, body, TokenReview)).status
