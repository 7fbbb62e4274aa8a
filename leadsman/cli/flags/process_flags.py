"""Adds the flags of what processes reach and how they log: the API server, etcd, the log's level.

A process of a pod (`api_access`) asks the API server that its flags name, or its own cluster's. A command on somebody's
machine (`operator_api_access`) also finds the cluster that kubectl means there. Credentials of a kubeconfig's exec
plugin, such as those of EKS, GKE and AKS, come through the `kubernetes` client, imported only where they are needed.
"""

import argparse
import logging
import os
import random
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from leadsman.cli.flags.options import Options
from leadsman.cli.flags.values import existing_file, one_of, optional_url, url_list
from leadsman.kube import kubeconfig
from leadsman.kube.access import ApiAccess, ApiAccessError, access_from_url, in_cluster_access
from leadsman.runtime.redaction import RedactingFormatter

if TYPE_CHECKING:
    from leadsman.state.etcd_http import EtcdAccess


def api_server_options(add: Options, default: str = "that of the cluster in which this pod runs") -> None:
    group = add.group(f"API server (default: {default})")
    group.flag(
        "kubeconfig",
        "kubeconfig file, for access from outside a cluster; one with an exec plugin needs leadsman[kubeconfig]",
        None,
        existing_file,
    )
    group.flag("kube-api", "URL of the API server, instead of a kubeconfig", "", optional_url)
    group.flag("kube-ca", "CA that the API server's certificate must chain to, in PEM", None, existing_file)
    group.flag("kube-token-file", "file with the bearer token for --kube-api", None, existing_file)


def operator_api_options(add: Options) -> None:
    add = add.without_environment()
    api_server_options(add, "that of kubectl's kubeconfig, else that of the cluster in which this pod runs")
    add.argument("context", "the context of the kubeconfig (default: its current one)", "", metavar="NAME")


def api_access(args: argparse.Namespace, environ: Mapping[str, str] = os.environ) -> ApiAccess:
    """Returns the API server that the flags name, or that of this pod's cluster.

    Raises NotInCluster when there is neither. ApiAccessError, a ValueError, for flags that cannot be used.
    """
    if args.kubeconfig and args.kube_api:
        raise ApiAccessError("--kubeconfig and --kube-api exclude each other; leave one out")
    if args.kubeconfig:
        context = getattr(args, "context", "")
        return kubeconfig.read_kubeconfig(args.kubeconfig, context, run_exec_plugin=run_exec_plugin)
    if args.kube_api:
        return access_from_url(args.kube_api, args.kube_ca, args.kube_token_file)
    if args.kube_ca or args.kube_token_file:
        raise ApiAccessError("--kube-ca and --kube-token-file need --kube-api too")
    return in_cluster_access(environ)


def operator_api_access(args: argparse.Namespace, environ: Mapping[str, str] = os.environ) -> ApiAccess:
    """Returns what `api_access` does; where no flag names a server, kubectl's kubeconfig does if there is one."""
    if not args.kubeconfig and not args.kube_api:
        args.kubeconfig = _kubectls_file(environ)
    if args.context and not args.kubeconfig:
        raise ApiAccessError("--context needs a kubeconfig: --kubeconfig, $KUBECONFIG or ~/.kube/config")
    return api_access(args, environ)


def _kubectls_file(environ: Mapping[str, str]) -> Path | None:
    """Returns the first file of $KUBECONFIG that exists, without the variable ~/.kube/config; None: there is none."""
    named = environ.get("KUBECONFIG") or "~/.kube/config"
    files = (Path(each).expanduser() for each in named.split(os.pathsep) if each)
    return next((file for file in files if file.is_file()), None)


def run_exec_plugin(path: Path, context: str, access: ApiAccess) -> ApiAccess:
    """Runs the plugin of this context's user. Its token is made again shortly before it expires.

    Raises ApiAccessError when the client is missing or the plugin gives no credential; the client logs the plugin's own
    error.
    """
    try:
        from kubernetes.client import Configuration
        from kubernetes.config import ConfigException, load_kube_config
    except ImportError as error:
        raise ApiAccessError(
            f"kubeconfig {path}: its exec plugin needs the package {error.name}; run pip install 'leadsman[kubeconfig]'"
        ) from error
    configuration = Configuration()
    try:
        load_kube_config(str(path), context, configuration, persist_config=False)
    except ConfigException as error:
        raise ApiAccessError(f"kubeconfig {path}: {error}") from error
    if configuration.cert_file and configuration.key_file:
        certificate, key = (Path(file).read_text() for file in (configuration.cert_file, configuration.key_file))
        return replace(access, certificate=certificate, key=key, token="")

    def token() -> str:
        return str(configuration.get_api_key_with_prefix("BearerToken") or "").removeprefix("Bearer ")

    if not token():
        raise ApiAccessError(f"kubeconfig {path}: the exec plugin gave no token and no certificate; its error is above")
    return replace(access, token_source=token, certificate="", key="")


def etcd_options(add: Options, default: str | None = "http://127.0.0.1:2379") -> None:
    """Adds etcd's flags. default: None: no etcd is used unless it is named."""
    group = add.group("etcd")
    group.flag("etcd", f"client URLs of etcd's members (default {default or 'none'})", default, url_list)
    group.flag("etcd-ca", "CA that etcd's certificate must chain to, in PEM", None, existing_file)
    group.flag(
        "etcd-token-file", "our service account's token, for a locked etcd (default: none)", None, Path, metavar="FILE"
    )


def etcd_access(args: argparse.Namespace, call_timeout_seconds: float = 3.0) -> "EtcdAccess":
    """Returns the etcd that the flags name. Raises ValueError when they do not fit together."""
    # Not at the top: it imports aiohttp, which an agent must do first: leadsman.runtime.lean_aiohttp.
    from leadsman.state.etcd_http import EtcdAccess

    # In an order of its own, so that a thousand agents do not all call the first member.
    endpoints = tuple(random.sample(args.etcd, len(args.etcd)))
    return EtcdAccess(endpoints, str(args.etcd_ca or ""), args.etcd_token_file, call_timeout_seconds)


class TextFormatter(RedactingFormatter):
    """Writes `MOMENT LEVEL LOGGER: MESSAGE`, and a traceback on the lines after it."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802 the base class's name
        """Writes the moment by RFC 3339, as 2026-11-22T13:44:40.123Z."""
        moment = datetime.fromtimestamp(record.created, UTC)
        return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"


def log_options(add: Options) -> None:
    add.flag(
        "log-level",
        "least severe level that is logged: debug, info, warning or error",
        "info",
        one_of("debug", "info", "warning", "error"),
        metavar="LEVEL",
    )


def start_logging(args: argparse.Namespace) -> None:
    """Logs to standard error. A command without these flags logs as their defaults say."""
    handler = logging.StreamHandler()
    handler.setFormatter(TextFormatter())
    logging.basicConfig(level=getattr(args, "log_level", "info").upper(), handlers=[handler])
