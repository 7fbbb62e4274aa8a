"""Flags of the page and the API for people: where they are served, and where they find histories."""

import argparse
from pathlib import Path

from extender.api.settings import LOOPBACK_HOSTS, PageService, PageSettings
from leadsman.cli.flags.options import Options
from leadsman.cli.flags.values import client_names, existing_folder, listen_address, optional_url, split_host_port
from leadsman.kube.access import ApiAccess, access_from_url


def options(add: Options) -> None:
    add.flag(
        "page-listen",
        "loopback address of the page and the API, in plain HTTP, for `leadsman page` (default: none)",
        None,
        listen_address,
    )
    add.flag(
        "page-service-listen",
        "address of the same for the cluster: TLS, and a token that the API server knows (default: none)",
        None,
        listen_address,
    )
    add.flag(
        "page-hosts",
        "host names besides 127.0.0.1 and localhost that --page-service-listen is asked for by (default {default})",
        "leadsman-page.leadsman.svc,leadsman-page",
        client_names,
    )
    add.flag(
        "page-tls",
        "folder with tls.crt and tls.key of --page-service-listen (default: the certificate of --tls-cert)",
        None,
        existing_folder,
    )
    add.flag(
        "prometheus-url",
        "Prometheus that scrapes the agents, which the page asks for histories (default: none; the page then has what"
        " this process remembers); with --prometheus-ca and --prometheus-token-file",
        "",
        optional_url,
    )


def settings(args: argparse.Namespace, api: ApiAccess | None) -> PageSettings | None:
    """None: neither is served. ValueError, with what to do, when the flags do not fit together."""
    local = split_host_port(args.page_listen) if args.page_listen else None
    if local and local[0] not in LOOPBACK_HOSTS:
        raise ValueError(
            f"--page-listen {args.page_listen}: asks for no token, so it listens on {', '.join(sorted(LOOPBACK_HOSTS))}"
            " alone; for other addresses use --page-service-listen"
        )
    service = _service(args, api) if args.page_service_listen else None
    url = args.prometheus_url
    if local or service:
        prometheus = access_from_url(url, args.prometheus_ca, args.prometheus_token_file) if url else None
        return PageSettings(local, service, prometheus)
    if url:
        raise ValueError(
            "--prometheus-url is asked by the page alone; serve it with --page-listen or --page-service-listen"
        )
    return None


def _service(args: argparse.Namespace, api: ApiAccess | None) -> PageService:
    folder: Path | None = args.page_tls
    certificate, key = (folder / "tls.crt", folder / "tls.key") if folder else (args.tls_cert, args.tls_key)
    if certificate is None or key is None:
        raise ValueError("--page-service-listen needs a certificate; name its folder with --page-tls")
    if api is None:
        raise ValueError(
            "--page-service-listen needs the API server, which says whose a token is; name it with --kube-api or"
            " --kubeconfig"
        )
    return PageService(split_host_port(args.page_service_listen), args.page_hosts, certificate, key, api)
