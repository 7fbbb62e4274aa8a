"""Flags of the command line, and the environment variables behind them.

A long-running process is configured by a ConfigMap, so each of its flags reads LEADSMAN_<FLAG>, some also a name that
Kubernetes users expect. The operator's commands read only what names the extender: an exported variable of one command
must not reach another one that means something else by it.
"""

import argparse
import os
import random
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leadsman.cli import exec_credential
from leadsman.cli.parser import did_you_mean
from leadsman.kube import kubeconfig
from leadsman.kube.access import ApiAccess as ApiAccess
from leadsman.kube.access import ApiAccessError, access_from_url, in_cluster_access
from leadsman.runtime.log_format import FORMATTERS

if TYPE_CHECKING:
    from leadsman.state.etcd_credentials import IssuerAccess
    from leadsman.state.etcd_http import EtcdAccess

ISSUER_TOKEN_FILE = Path("/var/run/secrets/leadsman/etcd-issuer/token")
"""Where the manifests project it."""

THROUGH_KUBECTL = "kubectl"
"""The value of --extender that has it found in the cluster."""

DEVICES_HELP = (
    "follow the devices of nodes and pods: an extender grants bandwidth and parts of devices, and a controller has "
    "refused pods tried again when there is room (docs/devices.md)"
)
POLICY_HELP = "the policy file: the extender's weights and thresholds, reloaded when it changes"
"""Extender and controller read the same file: the controller requeues pods when the extender's answer may change."""


class CommandFailed(Exception):
    """A command cannot do what it was asked, through no fault of its flags; says why and what to do."""


class Options:
    """Adds flags to `parser` whose defaults come from `environ`; None: no variable is read."""

    def __init__(self, parser: argparse._ActionsContainer, environ: Mapping[str, str] | None) -> None:
        self.parser, self._environ = parser, environ

    def flag(
        self,
        name: str,
        text: str,
        default: Any = None,
        parse: Callable[[str], Any] = str,
        *,
        variable: str = "",
        also: Sequence[str] = (),
        aliases: Sequence[str] = (),
        **more: Any,
    ) -> None:
        """A flag that falls back on environment variables: the first one that is set and not empty wins.

        variable: the first of them, where LEADSMAN_<FLAG> would mean another thing to each process; then ValueError
            when LEADSMAN_<FLAG> is set, so that nobody believes it to be read.
        also: those after it.
        aliases: older names of the flag, read for one more release, with the variables that they stand for.
        more: further arguments of argparse's add_argument.
        """
        if self._environ is None:
            self.argument(name, text, default, parse, **more)
            return
        if variable and self._environ.get(_variable(name)):
            raise ValueError(
                f"{_variable(name)} is not read, as it would mean another thing to each process; set {variable}"
            )
        variables = [variable or _variable(name), *also]
        read = [*variables, *map(_variable, aliases)]
        given = next((self._environ[each] for each in read if self._environ.get(each)), None)
        shown = f"{text} [{', '.join('$' + each for each in variables)}]"
        self.parser.add_argument(f"--{name}", help=shown, type=parse, default=given or default, **more)
        for alias in aliases:
            self.parser.add_argument(
                f"--{alias}", help=argparse.SUPPRESS, type=parse, dest=name.replace("-", "_"), default=argparse.SUPPRESS
            )

    def argument(
        self, name: str, text: str, default: Any = None, parse: Callable[[str], Any] = str, **more: Any
    ) -> None:
        """A flag that reads no environment variable."""
        self.parser.add_argument(f"--{name}", help=text, type=parse, default=default, **more)

    def switch(self, name: str, text: str) -> None:
        """A flag without a value, off by default; LEADSMAN_<FLAG> set to 1, true, yes or on switches it on."""
        if self._environ is None:
            self.parser.add_argument(f"--{name}", help=text, action="store_true")
            return
        given = self._environ.get(_variable(name), "").lower() in ("1", "true", "yes", "on")
        self.parser.add_argument(f"--{name}", help=f"{text} [${_variable(name)}]", action="store_true", default=given)

    def group(self, title: str) -> "Options":
        return Options(self.parser.add_argument_group(title), self._environ)

    def without_environment(self) -> "Options":
        """These options for the operator's commands, which no exported variable may reach."""
        return Options(self.parser, None)

    def for_subcommand(self, parser: argparse._ActionsContainer) -> "Options":
        """These options for a subcommand's parser."""
        return Options(parser, self._environ)

    def etcd(self, default: str | None = "http://127.0.0.1:2379") -> None:
        """Flags of access to etcd, which holds the state. default: None: none is used unless it is named."""
        group = self.group("etcd")
        group.flag(
            "etcd",
            f"client URLs of etcd's members (default {default or 'none'})",
            default,
            url_list,
            metavar="URL[,URL]",
        )
        group.flag("etcd-ca", "CA that etcd's certificate must chain to, in PEM", None, existing_file, metavar="FILE")
        group.flag("etcd-user", "user name, when etcd's access control is on", "", metavar="NAME")
        group.flag("etcd-password-file", "file with the user's password", None, existing_file, metavar="FILE")
        group.flag(
            "etcd-issuer", "URL of the issuer that gives us user and password", "", optional_https_url, metavar="URL"
        )
        group.flag(
            "etcd-issuer-ca",
            "CA that the issuer's certificate must chain to, in PEM (default: that of --etcd-ca)",
            None,
            existing_file,
            metavar="FILE",
        )
        group.flag(
            "etcd-issuer-token-file",
            f"our service account's token for the issuer (default {ISSUER_TOKEN_FILE})",
            ISSUER_TOKEN_FILE,
            Path,
            metavar="FILE",
        )

    def api_server(self) -> None:
        """Flags of access to Kubernetes' API server."""
        group = self.group("API server (default: that of the cluster in which this pod runs)")
        group.flag(
            "kubeconfig",
            "kubeconfig file, for access from outside a cluster; one with an exec plugin needs leadsman[kubeconfig]",
            None,
            existing_file,
            metavar="FILE",
        )
        group.flag("kube-api", "URL of the API server, instead of a kubeconfig", "", optional_url, metavar="URL")
        group.flag(
            "kube-ca", "CA that the API server's certificate must chain to, in PEM", None, existing_file, metavar="FILE"
        )
        group.flag("kube-token-file", "file with the bearer token for --kube-api", None, existing_file, metavar="FILE")

    def log_level(self) -> None:
        self.flag(
            "log-level",
            "least severe level that is logged: debug, info, warning or error (default info)",
            "info",
            one_of("debug", "info", "warning", "error"),
            metavar="LEVEL",
        )
        self.flag(
            "log-format",
            "text or json, an object a line (default text); moments are UTC in both",
            "text",
            one_of(*FORMATTERS),
            metavar="FORMAT",
        )


def _variable(flag: str) -> str:
    return f"LEADSMAN_{flag.upper().replace('-', '_')}"


def etcd_access(args: argparse.Namespace, call_timeout_seconds: float = 3.0) -> "EtcdAccess":
    """The etcd that the flags name. ValueError when its password file holds no password."""
    from leadsman.state.etcd_http import (
        EtcdAccess,
    )  # it imports aiohttp, which an agent must do first: leadsman.runtime.import_trim

    # In an order of its own, so that a thousand agents do not all call the first member.
    access = EtcdAccess(
        tuple(random.sample(args.etcd, len(args.etcd))),
        str(args.etcd_ca or ""),
        args.etcd_user,
        password_file=args.etcd_password_file,
        issuer=_issuer_access(args),
        call_timeout_seconds=call_timeout_seconds,
    )
    access.read_password()
    return access


def _issuer_access(args: argparse.Namespace) -> "IssuerAccess | None":
    from leadsman.state.etcd_credentials import IssuerAccess

    ca = str(args.etcd_issuer_ca or args.etcd_ca or "")
    return IssuerAccess(args.etcd_issuer, args.etcd_issuer_token_file, ca) if args.etcd_issuer else None


def api_access(args: argparse.Namespace, environ: Mapping[str, str] = os.environ, *, context: str = "") -> ApiAccess:
    """The API server that the flags name, or that of this pod's cluster.

    context: of the kubeconfig; "": its current one.

    NotInCluster when there is neither. ApiAccessError, a ValueError, for flags that cannot be used.
    """
    if args.kubeconfig and args.kube_api:
        raise ApiAccessError("--kubeconfig and --kube-api exclude each other; leave one out")
    if args.kubeconfig:
        return kubeconfig.read(args.kubeconfig, context, run_exec_plugin=exec_credential.load)
    if context:
        raise ApiAccessError("--context needs --kubeconfig too")
    if args.kube_api:
        return access_from_url(args.kube_api, args.kube_ca, args.kube_token_file)
    if args.kube_ca or args.kube_token_file:
        raise ApiAccessError("--kube-ca and --kube-token-file need --kube-api too")
    return in_cluster_access(environ)


def url_list(text: str) -> tuple[str, ...]:
    found = tuple(url.strip().rstrip("/") for url in text.split(",") if url.strip())
    if not found or not all(url.startswith(("http://", "https://")) for url in found):
        raise argparse.ArgumentTypeError(f"{text!r}: want http://HOST:PORT or https://HOST:PORT, comma-separated")
    return found


def optional_url(text: str) -> str:
    """One URL, or nothing."""
    if text and not re.match("https?://.", text):
        raise argparse.ArgumentTypeError(f"{text!r}: want http://HOST:PORT or https://HOST:PORT")
    return text.rstrip("/")


def optional_https_url(text: str) -> str:
    if text and not re.match("https://.", text):
        raise argparse.ArgumentTypeError(f"{text!r}: want https://HOST:PORT")
    return text.rstrip("/")


def namespace_name(text: str) -> str:
    """As Kubernetes names one: a label of RFC 1123."""
    if not re.fullmatch("[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", text):
        raise argparse.ArgumentTypeError(f"{text!r}: want a namespace: a-z, 0-9 and -, at most 63 characters")
    return text


def object_name(text: str) -> str:
    """As Kubernetes names nodes and most other objects."""
    from leadsman.state.keys import is_node_name

    if not is_node_name(text):
        raise argparse.ArgumentTypeError(
            f"{text!r}: want the name of an object: a-z, 0-9, - and ., at most 253 characters"
        )
    return text


def optional_object_name(text: str) -> str:
    return text and object_name(text)


def label_key(text: str) -> str:
    """As Kubernetes has them: an optional prefix, which is a subdomain, and a name."""
    prefix, slash, name = text.rpartition("/")
    if not re.fullmatch("[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", name) or (slash and not object_name(prefix)):
        raise argparse.ArgumentTypeError(f"{text!r}: want a label's key, such as topology.kubernetes.io/rack")
    return text


def image_reference(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][-A-Za-z0-9_./:@]*", text):
        raise argparse.ArgumentTypeError(f"{text!r}: want an image, such as registry.example.com/pause:3.10")
    return text


class OneOf:
    """Parses one of these words. Not argparse's `choices`, which do not check a default, and so no environment variable
    either."""

    def __init__(self, allowed: Sequence[str]) -> None:
        self.allowed = allowed

    def __call__(self, text: str) -> str:
        if text not in self.allowed:
            suggestion = did_you_mean(text, self.allowed)
            raise argparse.ArgumentTypeError(f"{text!r}: want one of {', '.join(self.allowed)}{suggestion}")
        return text


def one_of(*allowed: str) -> OneOf:
    return OneOf(allowed)


def positive_number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r}: want a number above 0")
    return value


def non_negative_number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r}: want a number, 0 or more")
    return value


def positive_int(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r}: want a whole number above 0")
    return int(text)


def non_negative_int(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r}: want a whole number, 0 or more")
    return int(text)


def listen_address(text: str) -> str:
    """HOST:PORT; an IPv6 host in brackets."""
    host, colon, port = text.rpartition(":")
    if not (host and colon and port.isdecimal() and int(port) < 65536):
        raise argparse.ArgumentTypeError(f"{text!r}: want HOST:PORT, with an IPv6 host in [brackets]")
    return text


def port_number(text: str) -> int:
    """0: a free one."""
    if not (text.isdecimal() and int(text) < 65536):
        raise argparse.ArgumentTypeError(f"{text!r}: want a port, 0 to 65535")
    return int(text)


def split_host_port(text: str) -> tuple[str, int]:
    """Host and port of a `listen_address`."""
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)


def existing_file(text: str) -> Path:
    path = Path(text)
    if not path.is_file():
        raise argparse.ArgumentTypeError(f"{text!r}: no such file")
    return path


def file_to_write(text: str) -> Path:
    """Looked at before anything is computed that would be lost."""
    path = Path(text)
    if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        raise argparse.ArgumentTypeError(f"{text!r}: want a file in a folder that exists and can be written")
    return path


def client_names(text: str) -> frozenset[str]:
    found = frozenset(name.strip() for name in text.split(",") if name.strip())
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r}: want NAME or NAME,NAME")
    return found


def existing_folder(text: str) -> Path:
    path = Path(text)
    if not path.is_dir():
        raise argparse.ArgumentTypeError(f"{text!r}: no such folder")
    return path
