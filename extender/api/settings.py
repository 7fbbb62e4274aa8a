"""Where the API and the page are served. Apart from what serves them, which a process without a page never imports."""

from pathlib import Path

from msgspec import Struct

from leadsman.kube.access import ApiAccess

LOOPBACK_HOSTS = frozenset({"127.0.0.1", "localhost", "::1"})


class PageService(Struct, frozen=True):
    """The page for browsers and clients of the cluster: TLS, and a bearer token with each request.

    listen: host and port.
    hosts: names, besides those of loopback, that requests may be for.
    certificate, key: files in PEM.
    api: the API server, which says whose a token is.
    """

    listen: tuple[str, int]
    hosts: frozenset[str]
    certificate: Path
    key: Path
    api: ApiAccess


class PageSettings(Struct, frozen=True):
    """Where the API and the page are served.

    local: a loopback address and port, where plain HTTP without a token is answered; None: none.
    service: None: none.
    prometheus: asked for histories; None: there are those of this process alone.
    """

    local: tuple[str, int] | None = None
    service: PageService | None = None
    prometheus: ApiAccess | None = None
