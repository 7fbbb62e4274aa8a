"""Flags of mutual TLS with kube-scheduler, which is on unless plain HTTP is asked for by name."""

import argparse

from leadsman.cli.flags.options import Options, not_given
from leadsman.cli.flags.values import client_names, existing_file
from leadsman.runtime.mutual_tls import TlsFiles

FILES = ("--tls-cert", "--tls-key", "--tls-client-ca")


def options(add: Options) -> None:
    add.flag("tls-cert", "the extender's certificate", None, existing_file)
    add.flag("tls-key", "the certificate's private key", None, existing_file)
    add.flag("tls-client-ca", "CA that clients' certificates must chain to", None, existing_file)
    add.flag(
        "tls-client-name",
        "common or alternative names of the clients that are answered, exact (default {default})",
        "kube-scheduler",
        client_names,
    )
    add.switch("plain-http", "serve without TLS: any client that reaches the port is answered")


def settings(args: argparse.Namespace) -> TlsFiles | None:
    """None: plain HTTP. ValueError when neither that nor all files are given, or both."""
    missing = not_given(args, *FILES)
    if args.plain_http and len(missing) < len(FILES):
        raise ValueError("--plain-http and certificates exclude each other; leave one out")
    if args.plain_http:
        return None
    if missing:
        raise ValueError(f"{', '.join(missing)} not given; make them with `leadsman certs`, or pass --plain-http")
    return TlsFiles(args.tls_cert, args.tls_key, args.tls_client_ca, args.tls_client_name)
