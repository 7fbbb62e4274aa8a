"""Which role of etcd a service account token gives a right to: whose it is the API server says (TokenReview)."""

from collections.abc import Mapping

from msgspec import Struct

from leadsman.etcd.roles import CONTROLLER, EXTENDER, EtcdRole, agent_role
from leadsman.kube.client import ApiClient
from leadsman.state import keys

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
        raise TokenRefused(f"the token names {nodes[0]!r}, which is no node's name")
    return nodes[0]
