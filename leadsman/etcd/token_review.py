"""Which role of etcd a service account token gives a right to, and on which node its pod runs."""

from leadsman.etcd.roles import CONTROLLER, EXTENDER, EtcdRole, agent_role
from leadsman.kube.token_review import TokenReviewStatus, TokenUser

AUDIENCE = "leadsman-etcd-issuer"
"""Of tokens for the issuer. A token for the API server has another one, and is refused."""

NODE_CLAIM = "authentication.kubernetes.io/node-name"
"""In a bound token of a pod, from Kubernetes 1.30 on. KEP-4193."""


class TokenRefused(Exception):
    """The token gives no right to a credential. The text says why, without the token."""


def role_of(status: TokenReviewStatus, namespace: str) -> EtcdRole:
    """The one role that the token gives a right to. TokenRefused. namespace: of our service accounts."""
    if not status.authenticated:
        raise TokenRefused("the API server does not know this token: expired, of a deleted pod, or of another cluster")
    if AUDIENCE not in status.audiences:
        raise TokenRefused(f"the token is not for the audience {AUDIENCE}")
    account = status.user.username.removeprefix(f"system:serviceaccount:{namespace}:")
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
    return nodes[0]
