"""The flag of the page: where it finds histories."""

import argparse

from leadsman.cli.flags.options import Options
from leadsman.cli.flags.values import optional_url
from leadsman.kube.access import ApiAccess, access_from_url


def options(add: Options) -> None:
    add.flag(
        "prometheus-url",
        "Prometheus that scrapes the agents, which the page asks for histories (default: none; the page then has what"
        " this process remembers); with --prometheus-ca and --prometheus-token-file",
        "",
        optional_url,
    )


def settings(args: argparse.Namespace) -> ApiAccess | None:
    url = args.prometheus_url
    return access_from_url(url, args.prometheus_ca, args.prometheus_token_file) if url else None
