"""Flags with environment fallbacks. Each flag reads LEADSMAN_<FLAG>; some also a name that Kubernetes users expect."""

import argparse
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leadsman.kube import kubeconfig
from leadsman.kube.access import ApiAccess as ApiAccess
from leadsman.kube.access import ApiAccessError, access_from_url, in_cluster_access

if TYPE_CHECKING:
    from leadsman.state.etcd_http import EtcdAccess


class Options:
    """Adds flags to `parser` whose defaults come from `environ`."""

    def __init__(self, parser: argparse._ActionsContainer, environ: Mapping[str, str]) -> None:
        self.parser, self._environ = parser, environ

    def flag(
        self,
        name: str,
        text: str,
        default: Any = None,
        parse: Callable[[str], Any] = str,
        also: Sequence[str] = (),
        **more: Any,
    ) -> None:
        """also: further environment variables, after LEADSMAN_<FLAG>. The first one that is set and not empty wins."""
        variables = [f"LEADSMAN_{name.upper().replace('-', '_')}", *also]
        given = next((self._environ[v] for v in variables if self._environ.get(v)), None)
        shown = f"{text} [{', '.join('$' + v for v in variables)}]"
        self.parser.add_argument(f"--{name}", help=shown, type=parse, default=given or default, **more)

    def switch(self, name: str, text: str) -> None:
        """Off unless given; its variable switches it on with 1, true, yes or on."""
        variable = f"LEADSMAN_{name.upper().replace('-', '_')}"
        given = self._environ.get(variable, "").lower() in ("1", "true", "yes", "on")
        self.parser.add_argument(f"--{name}", help=f"{text} [${variable}]", action="store_true", default=given)

    def group(self, title: str) -> "Options":
        return Options(self.parser.add_argument_group(title), self._environ)

    def for_subcommand(self, parser: argparse._ActionsContainer) -> "Options":
        """The same, for a command of this one."""
        return Options(parser, self._environ)

    def etcd(self) -> None:
        """Where the state is, and how to be let in."""
        group = self.group("etcd")
        group.flag("etcd", "client URLs, comma-separated", "http://127.0.0.1:2379", url_list, metavar="URL[,URL]")
        group.flag(
            "etcd-ca", "PEM file that the server's certificate must chain to", None, existing_file, metavar="FILE"
        )
        group.flag("etcd-user", "user name, when etcd's own access control is on", "", metavar="NAME")
        group.flag("etcd-password-file", "file that holds the user's password", None, existing_file, metavar="FILE")

    def api_server(self) -> None:
        """How to reach Kubernetes' API server."""
        group = self.group("API server (default: of the cluster that this pod runs in)")
        group.flag("kubeconfig", "how to reach it from outside of a cluster", None, existing_file, metavar="FILE")
        group.flag("kube-api", "by its URL, instead of a kubeconfig", "", metavar="URL")
        group.flag("kube-ca", "PEM file that its certificate must chain to", None, existing_file, metavar="FILE")
        group.flag("kube-token-file", "bearer token for --kube-api", None, existing_file, metavar="FILE")

    def log_level(self) -> None:
        self.flag("log-level", "how much to say (default info)", "info", one_of("debug", "info", "warning", "error"))


def etcd_access(args: argparse.Namespace, call_timeout_seconds: float = 3.0) -> "EtcdAccess":
    from leadsman.state.etcd_http import EtcdAccess  # it imports aiohttp, which an agent must do first: leadsman.lean

    password = args.etcd_password_file.read_text().strip() if args.etcd_password_file else ""
    return EtcdAccess(args.etcd, str(args.etcd_ca or ""), args.etcd_user, password, call_timeout_seconds)


def api_access(args: argparse.Namespace, environ: Mapping[str, str] = os.environ) -> ApiAccess:
    """NotInCluster when none is named and this is no pod. ApiAccessError, a ValueError, for what cannot be used."""
    if args.kubeconfig and args.kube_api:
        raise ApiAccessError("--kubeconfig and --kube-api exclude each other; leave one out")
    if args.kubeconfig:
        return kubeconfig.read(args.kubeconfig)
    if args.kube_api:
        return access_from_url(args.kube_api, args.kube_ca, args.kube_token_file)
    if args.kube_ca or args.kube_token_file:
        raise ApiAccessError("--kube-ca and --kube-token-file want --kube-api as well")
    return in_cluster_access(environ)


def url_list(text: str) -> tuple[str, ...]:
    found = tuple(url.strip().rstrip("/") for url in text.split(",") if url.strip())
    if not found or not all(url.startswith(("http://", "https://")) for url in found):
        raise argparse.ArgumentTypeError(f"{text!r}: want http://HOST:PORT or https://HOST:PORT, comma-separated")
    return found


def one_of(*allowed: str) -> Callable[[str], str]:
    """Not argparse's `choices`, which do not check a default, and so no environment variable either."""

    def parse(text: str) -> str:
        if text not in allowed:
            raise argparse.ArgumentTypeError(f"{text!r}: want one of {', '.join(allowed)}")
        return text

    return parse


def positive_number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r}: want a number above 0")
    return value


def positive_int(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r}: want a whole number above 0")
    return int(text)


def listen_address(text: str) -> str:
    """HOST:PORT; an IPv6 host in brackets."""
    host, colon, port = text.rpartition(":")
    if not (host and colon and port.isdecimal() and int(port) < 65536):
        raise argparse.ArgumentTypeError(f"{text!r}: want HOST:PORT, with an IPv6 host in [brackets]")
    return text


def split_host_port(text: str) -> tuple[str, int]:
    """Of an `address`."""
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)


def existing_file(text: str) -> Path:
    path = Path(text)
    if not path.is_file():
        raise argparse.ArgumentTypeError(f"{text!r}: no such file")
    return path


def existing_folder(text: str) -> Path:
    path = Path(text)
    if not path.is_dir():
        raise argparse.ArgumentTypeError(f"{text!r}: no such folder")
    return path
