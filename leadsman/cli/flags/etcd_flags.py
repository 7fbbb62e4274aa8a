"""Flags of access to etcd, which holds the state."""

import argparse
import random
from pathlib import Path
from typing import TYPE_CHECKING

from leadsman.cli.flags.options import Options
from leadsman.cli.flags.values import existing_file, optional_https_url, url_list

if TYPE_CHECKING:
    from leadsman.state.etcd_credentials import IssuerAccess
    from leadsman.state.etcd_http import EtcdAccess

ISSUER_TOKEN_FILE = Path("/var/run/secrets/leadsman/etcd-issuer/token")
"""Where the manifests project it."""


def options(add: Options, default: str | None = "http://127.0.0.1:2379") -> None:
    """default: None: no etcd is used unless it is named."""
    group = add.group("etcd")
    group.flag("etcd", f"client URLs of etcd's members (default {default or 'none'})", default, url_list)
    group.flag("etcd-ca", "CA that etcd's certificate must chain to, in PEM", None, existing_file)
    group.flag("etcd-user", "user name, when etcd's access control is on", "", metavar="NAME")
    group.flag("etcd-password-file", "file with the user's password", None, existing_file)
    group.flag("etcd-issuer", "URL of the issuer that gives us user and password", "", optional_https_url)
    group.flag(
        "etcd-issuer-ca",
        "CA that the issuer's certificate must chain to, in PEM (default: that of --etcd-ca)",
        None,
        existing_file,
    )
    group.flag(
        "etcd-issuer-token-file",
        "our service account's token for the issuer (default {default})",
        ISSUER_TOKEN_FILE,
        Path,
        metavar="FILE",
    )


def settings(args: argparse.Namespace, call_timeout_seconds: float = 3.0) -> "EtcdAccess":
    """The etcd that the flags name. ValueError when its password file holds no password."""
    # Not at the top: it imports aiohttp, which an agent must do first: leadsman.runtime.lean_aiohttp.
    from leadsman.state.etcd_http import EtcdAccess

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
