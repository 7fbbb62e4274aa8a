"""`leadsman etcd-issuer`: give each of our processes its own user and password of etcd."""

import argparse

from leadsman.cli.options import Options, api_access, etcd_access, existing_file, listen_address, split_host_port
from leadsman.etcd.access_control import ROOT
from leadsman.etcd.issuer import IssuerSettings, run
from leadsman.runtime.process import run_until_stopped
from leadsman.runtime.watched_files import UnusableFile


def options(add: Options) -> None:
    serving = add.group("serving")
    serving.flag(
        "listen",
        "address of the credentials, by TLS (default 0.0.0.0:9004)",
        "0.0.0.0:9004",
        listen_address,
        variable="LEADSMAN_ETCD_ISSUER_LISTEN",
        metavar="HOST:PORT",
    )
    serving.flag(
        "ops-listen",
        "address of /metrics, /healthz and /readyz (default 0.0.0.0:9005)",
        "0.0.0.0:9005",
        listen_address,
        variable="LEADSMAN_ETCD_ISSUER_OPS_LISTEN",
        metavar="HOST:PORT",
    )
    serving.argument("tls-cert", "our certificate, in PEM", None, existing_file, metavar="FILE", required=True)
    serving.argument("tls-key", "its key, in PEM", None, existing_file, metavar="FILE", required=True)
    serving.argument("namespace", "of the service accounts (default leadsman)", "leadsman", metavar="NAMESPACE")
    add.api_server()
    add.etcd()
    add.log_level()


def main(args: argparse.Namespace) -> int:
    """ValueError for flags that do not fit together."""
    if args.etcd_password_file is None:
        raise ValueError("--etcd-password-file is missing: the password of etcd's user root")
    args.etcd_user, args.etcd_issuer = ROOT, ""
    settings = IssuerSettings(
        etcd=etcd_access(args),
        api=api_access(args),
        namespace=args.namespace,
        certificate=args.tls_cert,
        key=args.tls_key,
        listen=split_host_port(args.listen),
        ops_listen=split_host_port(args.ops_listen),
    )
    return run_until_stopped(lambda stop: run(settings, stop), expected=(UnusableFile,))
