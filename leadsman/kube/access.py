"""Finds the way to the API server: its URL, the CAs to trust, and our credentials."""

import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from msgspec import Struct

from leadsman.runtime.redaction import hide_credentials

SERVICE_ACCOUNT_DIR = Path("/var/run/secrets/kubernetes.io/serviceaccount")


_TOKEN = re.compile(r"[!-~]+")
"""Anything else cannot stand in a header (RFC 9110, 5.5), or would not reach the server as it is."""

_ALLOWED_TOKEN = "one line of ASCII without spaces"


class ApiAccessError(ValueError):
    """The access cannot be used; the text names the file, the field, its value and what is allowed."""


class NotInCluster(ApiAccessError):
    """This process does not run in a pod, so the API server must be named."""


class ApiAccess(Struct, frozen=True):
    """An API server and our credentials for it. Raises ApiAccessError when the URL is not valid.

    ca: certificates in PEM; "": the system's.
    token_file: read before each call, because kubelet rotates it.
    token_source: asked before each call, for tokens that expire; used when there is no file.
    token: used when there is neither.
    certificate, key: the client's own, in PEM.
    server_name: what the server's certificate must name, when it is not the URL's host.
    insecure: the server's certificate is not verified; that is logged.
    namespace: the one to use when none is named.
    tls_files: what ca, certificate and key were read from. read_again: makes all of this once more.
    """

    url: str
    ca: str = ""
    token_file: Path | None = None
    token_source: Callable[[], str] | None = None
    token: str = ""
    certificate: str = ""
    key: str = ""
    server_name: str = ""
    insecure: bool = False
    namespace: str = "default"
    tls_files: tuple[Path, ...] = ()
    read_again: Callable[[], "ApiAccess"] | None = None

    def __post_init__(self) -> None:
        try:
            netloc = urlsplit(self.url).netloc if self.url.startswith(("http://", "https://")) else ""
        except ValueError:
            netloc = ""
        if not netloc:
            raise ApiAccessError(f"API server {self.url!r} must be http://HOST:PORT or https://HOST:PORT")
        if "@" in netloc and (self.token_file or self.token_source or self.token):
            raise ApiAccessError(
                f"API server {hide_credentials(self.url)} has a user in its URL, and there is a token too; one request "
                "can carry one of them: leave the user out, or the token"
            )

    def __repr__(self) -> str:
        """Leaves out token and key."""
        return f"ApiAccess({self.url!r})"

    def read_token(self) -> str:
        """Returns the token, "" when none is set. ValueError, with what is allowed, when the file or setting has no
        valid one."""
        if self.token_file:
            try:
                token = self.token_file.read_bytes().decode(errors="replace").strip()
            except OSError as error:
                raise ValueError(f"{error.strerror}; it must be a file with {_ALLOWED_TOKEN}") from error
        else:
            token = self.token_source() if self.token_source else self.token
        if not (_TOKEN.fullmatch(token) or (self.token_file is None and not token)):
            raise ValueError(f"it holds no bearer token; it must be {_ALLOWED_TOKEN}")
        return token


def in_cluster_access(environ: Mapping[str, str], account: Path = SERVICE_ACCOUNT_DIR) -> ApiAccess:
    """Returns the access that the kubelet gives every pod. Raises NotInCluster outside of a pod."""
    host, port = environ.get("KUBERNETES_SERVICE_HOST"), environ.get("KUBERNETES_SERVICE_PORT_HTTPS", "443")
    if not host or not (account / "token").exists():
        raise NotInCluster(
            f"not running in a pod (KUBERNETES_SERVICE_HOST and {account}/token are needed);"
            " name the API server with --kube-api or --kubeconfig"
        )
    namespace = account / "namespace"
    return ApiAccess(
        f"https://{f'[{host}]' if ':' in host else host}:{port}",
        ca=read_pem(account / "ca.crt", "ca.crt"),
        token_file=account / "token",
        namespace=namespace.read_text().strip() if namespace.exists() else "default",
        tls_files=(account / "ca.crt",),
        read_again=partial(in_cluster_access, environ, account),
    )


def access_from_url(url: str, ca_file: Path | None = None, token_file: Path | None = None) -> ApiAccess:
    """Returns the access to the API server at `url`. Raises ApiAccessError when a file cannot be used."""
    return ApiAccess(
        url.rstrip("/"),
        ca=read_pem(ca_file, "CA file") if ca_file else "",
        token_file=token_file,
        tls_files=(ca_file,) if ca_file else (),
        read_again=partial(access_from_url, url, ca_file, token_file),
    )


def read_pem(path: Path, what: str) -> str:
    """Reads the file's PEM. what: its name in the error. Raises ApiAccessError when it cannot be read or is not PEM."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ApiAccessError(f"{what} {path}: {error}") from error
    if "-----BEGIN " not in text:
        raise ApiAccessError(f"{what} {path} is not PEM, which begins with -----BEGIN")
    return text
