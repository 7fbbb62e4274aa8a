"""Flags of the plan's server, which extenders ask for the page."""

import argparse

from controller.plan_server import PlanServerSettings
from leadsman.cli.flags.options import Options, not_given
from leadsman.cli.flags.values import client_names, existing_folder, listen_address, split_host_port

TOGETHER = ("--plan-listen", "--plan-tls")


def options(add: Options) -> None:
    add.flag("plan-listen", "address that extenders ask for the plan", None, listen_address)
    add.flag(
        "plan-tls",
        "folder with tls.crt, tls.key and ca.crt, of a certificate that extenders and controllers show each other",
        None,
        existing_folder,
    )
    add.flag(
        "plan-client-name",
        "names of extenders' certificates that may ask (default {default})",
        "leadsman-replicas",
        client_names,
    )


def settings(args: argparse.Namespace) -> PlanServerSettings | None:
    """None: no plan is served. ValueError when one of the flags that go together is missing."""
    missing = not_given(args, *TOGETHER)
    if len(missing) == len(TOGETHER):
        return None
    if missing:
        raise ValueError(f"{missing[0]} not given; --plan-listen and --plan-tls go together")
    return PlanServerSettings(split_host_port(args.plan_listen), args.plan_tls, args.plan_client_name)
