"""Flags of the other extenders, whose decisions are shown too, and of the controllers, whose plan is."""

import argparse

from extender.peers.replicas import ReplicaSettings
from leadsman.cli.flags.options import Options, not_given
from leadsman.cli.flags.values import existing_folder, listen_address, split_host_port

TOGETHER = ("--replicas", "--replica-listen", "--replica-tls")


def options(add: Options) -> None:
    add.flag(
        "replicas",
        "names that lead to every extender, as that of a headless Service; their certificates have these names",
        None,
        host_ports,
        metavar="HOST:PORT[,HOST:PORT]",
    )
    add.flag("replica-listen", "address that the others ask", None, listen_address)
    add.flag(
        "replica-tls",
        "folder with tls.crt, tls.key and ca.crt, of a certificate that replicas show each other",
        None,
        existing_folder,
    )
    add.flag(
        "controllers",
        "names that lead to every controller, whose plan the page shows; they show the certificate of --replica-tls",
        (),
        host_ports,
        metavar="HOST:PORT[,HOST:PORT]",
    )


def settings(args: argparse.Namespace) -> ReplicaSettings | None:
    """None: no other process is asked. ValueError when some of the flags that go together are missing."""
    missing = not_given(args, *TOGETHER)
    if len(missing) == len(TOGETHER) and not args.controllers:
        return None
    if missing:
        raise ValueError(f"{', '.join(missing)} not given; --replicas, --replica-listen and --replica-tls go together")
    return ReplicaSettings(split_host_port(args.replica_listen), args.replicas, args.replica_tls, args.controllers)


def host_ports(text: str) -> tuple[tuple[str, int], ...]:
    return tuple(split_host_port(listen_address(part.strip())) for part in text.split(","))
