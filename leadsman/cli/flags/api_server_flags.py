"""Flags of access to Kubernetes' API server."""

import argparse
import os
from collections.abc import Mapping

from leadsman.cli import exec_credential
from leadsman.cli.flags.options import Options
from leadsman.cli.flags.values import existing_file, optional_url
from leadsman.kube import kubeconfig
from leadsman.kube.access import ApiAccess, ApiAccessError, access_from_url, in_cluster_access


def options(add: Options) -> None:
    group = add.group("API server (default: that of the cluster in which this pod runs)")
    group.flag(
        "kubeconfig",
        "kubeconfig file, for access from outside a cluster; one with an exec plugin needs leadsman[kubeconfig]",
        None,
        existing_file,
    )
    group.flag("kube-api", "URL of the API server, instead of a kubeconfig", "", optional_url)
    group.flag("kube-ca", "CA that the API server's certificate must chain to, in PEM", None, existing_file)
    group.flag("kube-token-file", "file with the bearer token for --kube-api", None, existing_file)


def settings(args: argparse.Namespace, environ: Mapping[str, str] = os.environ, *, context: str = "") -> ApiAccess:
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
