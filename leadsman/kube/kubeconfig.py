"""Reads the access to an API server from a kubeconfig file, for processes outside of a cluster.

A file that needs what is not supported (a proxy, another identity) is refused, and the error names the field: without
it we would reach another server, or act as another user, than the file says. An exec plugin is run by what the caller
passes for that, and refused without it.
"""

import base64
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, structs

from leadsman.kube.access import ApiAccess, ApiAccessError, read_pem
from leadsman.kube.decoding import strip_nulls
from leadsman.runtime.decode_errors import UNREADABLE, explain

_UNSUPPORTED_USER = ("auth-provider", "username", "password", "as", "as-uid", "as-groups", "as-user-extra")
_CERTIFICATE, _KEY = "client-certificate", "client-key"
_TEXTS = ("token", "tokenFile", _CERTIFICATE, f"{_CERTIFICATE}-data", _KEY, f"{_KEY}-data")


_MAX_DEPTH = 32
"""Kubernetes' own nest 6 deep, and what extensions hold a little deeper."""


RunExecPlugin = Callable[[Path, str, ApiAccess], ApiAccess]
"""The access with the credential of the exec plugin that a kubeconfig's context names."""


class _Cluster(Struct, frozen=True, rename="kebab"):
    server: str = ""
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""


class _Context(Struct, frozen=True):
    cluster: str = ""
    user: str = ""
    namespace: str = ""


class _Entry(Struct, frozen=True):
    """An entry of one of the lists below, which has one of the three."""

    name: str
    cluster: _Cluster = _Cluster()
    context: _Context = _Context()
    user: dict[str, Any] = {}


class _Config(Struct, frozen=True, rename="kebab"):
    current_context: str = ""
    clusters: tuple[_Entry, ...] = ()
    contexts: tuple[_Entry, ...] = ()
    users: tuple[_Entry, ...] = ()


def read_kubeconfig(path: Path, context: str = "", run_exec_plugin: RunExecPlugin | None = None) -> ApiAccess:
    """Reads the access of `context` (default: current-context). ApiAccessError names file and field.

    Relative paths in the file start at the file's folder, as for kubectl.

    run_exec_plugin: None: a file that names an exec plugin is refused.
    """
    config = _decoded(path)
    name = context or config.current_context
    selected = _find(path, "context", config.contexts, name, "current-context").context
    cluster = _find(path, "cluster", config.clusters, selected.cluster, "the context's cluster").cluster
    user = _find(path, "user", config.users, selected.user, "the context's user").user if selected.user else {}
    _check_supported(path, selected.user, user, () if run_exec_plugin else ("exec",))
    access = _access(path, cluster, user, selected.namespace)
    if not user.get("exec") or run_exec_plugin is None:
        return structs.replace(access, read_again=partial(read_kubeconfig, path, context))
    return run_exec_plugin(path, name, access)


def _decoded(path: Path) -> _Config:
    import yaml  # Here: agents read no kubeconfig in a cluster, and would hold it in memory on every node.

    try:
        content = path.read_bytes()
        _check_depth(path, content)
        return msgspec.convert(strip_nulls(msgspec.yaml.decode(content)), _Config)
    except OSError as error:
        raise ApiAccessError(f"kubeconfig {path}: {error}") from error
    except (yaml.YAMLError, OverflowError) as error:
        raise ApiAccessError(f"kubeconfig {path}: {' '.join(str(error).split())}") from error
    except UNREADABLE as error:
        raise ApiAccessError(f"kubeconfig {path}: {explain(error)}") from error


def _check_depth(path: Path, content: bytes) -> None:
    """Raises ApiAccessError before a decoder in C overflows the stack."""
    import yaml

    depth = 0
    for event in yaml.parse(content, Loader=yaml.SafeLoader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _MAX_DEPTH:
            raise ApiAccessError(f"kubeconfig {path}: nested more than {_MAX_DEPTH} deep")


def _find(path: Path, what: str, entries: Sequence[_Entry], name: str, named_by: str) -> _Entry:
    if not name:
        raise ApiAccessError(f"kubeconfig {path}: {named_by} names no {what}")
    entry = next((each for each in entries if each.name == name), None)
    if entry is None:
        names = ", ".join(each.name for each in entries) or "there is none"
        raise ApiAccessError(f"kubeconfig {path}: no {what} {name!r}, which {named_by} names; allowed: {names}")
    return entry


def _check_supported(path: Path, name: str, user: dict[str, Any], more: Sequence[str]) -> None:
    for key in (*more, *_UNSUPPORTED_USER):
        if user.get(key):
            raise ApiAccessError(
                f"kubeconfig {path}: users[{name!r}].user.{key} is not supported; "
                "use token, tokenFile or client-certificate"
            )
    for key in _TEXTS:
        if not isinstance(user.get(key) or "", str):
            raise ApiAccessError(f"kubeconfig {path}: users[{name!r}].user.{key} must be text; write it in quotes")


def _access(path: Path, cluster: _Cluster, user: dict[str, Any], namespace: str) -> ApiAccess:
    if cluster.proxy_url:
        raise ApiAccessError(
            f"kubeconfig {path}: proxy-url {cluster.proxy_url!r} is not supported; name a server without a proxy"
        )
    if not cluster.server:
        raise ApiAccessError(f"kubeconfig {path}: the cluster has no server")
    files = [cluster.certificate_authority, *(user.get(name) or "" for name in (_CERTIFICATE, _KEY))]
    ca = _pem(path, "certificate-authority", cluster.certificate_authority, cluster.certificate_authority_data)
    return ApiAccess(
        cluster.server.rstrip("/"),
        ca=ca,
        token_file=path.parent / user["tokenFile"] if user.get("tokenFile") else None,
        token=user.get("token") or "",
        certificate=_pem(path, _CERTIFICATE, *_file_and_data(user, _CERTIFICATE)),
        key=_pem(path, _KEY, *_file_and_data(user, _KEY)),
        server_name=cluster.tls_server_name,
        insecure=cluster.insecure_skip_tls_verify,
        namespace=namespace or "default",
        tls_files=(path, *(path.parent / file for file in files if file)),
    )


def _file_and_data(user: dict[str, Any], name: str) -> tuple[str, str]:
    return user.get(name) or "", user.get(f"{name}-data") or ""


def _pem(path: Path, name: str, file: str, data: str) -> str:
    """Reads PEM from the data or the file that the field names; data wins, as in kubectl."""
    if not data:
        return read_pem(path.parent / file, f"kubeconfig {path}: {name}") if file else ""
    try:
        return base64.b64decode(data, validate=True).decode()
    except ValueError as error:
        raise ApiAccessError(f"kubeconfig {path}: {name}-data must be PEM in base64: {error}") from error
