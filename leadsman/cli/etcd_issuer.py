"""`leadsman etcd-issuer`: give each of our processes its own user and password of etcd."""

import argparse

from leadsman.cli.flags import api_server_flags, log_flags
from leadsman.cli.flags.options import Options
from leadsman.cli.flags.values import existing_file, listen_address, namespace_name, split_host_port, url_list
from leadsman.etcd.access_control import ROOT
from leadsman.etcd.issuer import IssuerSettings, run
from leadsman.runtime.process import run_until_stopped
from leadsman.runtime.watched_files import UnusableFile
from leadsman.state.etcd_http import EtcdAccess


def options(add: Options) -> None:
    add = add.without_environment()
    serving = add.group("serving")
    serving.argument("listen", "address of the credentials, by TLS (default {default})", "0.0.0.0:9004", listen_address)
    serving.argument(
        "ops-listen", "address of /metrics, /healthz and /readyz (default {default})", "0.0.0.0:9005", listen_address
    )
    serving.argument("tls-cert", "our certificate, in PEM", None, existing_file, required=True)
    serving.argument("tls-key", "its key, in PEM", None, existing_file, required=True)
    serving.argument("namespace", "of the service accounts (default {default})", "leadsman", namespace_name)
    etcd = add.group("etcd")
    etcd.argument("etcd", "client URLs of etcd's members", None, url_list, required=True)
    etcd.argument("etcd-ca", "CA that etcd's certificate must chain to, in PEM", None, existing_file)
    etcd.argument(
        "etcd-password-file", "file with the password of etcd's user root", None, existing_file, required=True
    )
    api_server_flags.options(add)
    log_flags.options(add)


def main(args: argparse.Namespace) -> int:
    """ValueError for flags that do not fit together."""
    etcd = EtcdAccess(args.etcd, str(args.etcd_ca or ""), ROOT, password_file=args.etcd_password_file)
    etcd.read_password()
    settings = IssuerSettings(
        etcd=etcd,
        api=api_server_flags.settings(args),
        namespace=args.namespace,
        certificate=args.tls_cert,
        key=args.tls_key,
        listen=split_host_port(args.listen),
        ops_listen=split_host_port(args.ops_listen),
    )
    return run_until_stopped(lambda stop: run(settings, stop), expected=(UnusableFile,))
