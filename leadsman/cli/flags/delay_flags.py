"""Flags of delays besides the agents' own: their sources, and whether unmeasured pairs are estimated."""

import argparse

from leadsman.cli.flags.options import Options
from leadsman.cli.flags.values import existing_file, optional_url, positive_number
from leadsman.sources.delay.delay_sources import DelaySettings


def options(add: Options) -> None:
    add.flag("goldpinger", "URL of Goldpinger, polled for /check_all", "", optional_url)
    add.flag(
        "goldpinger-names",
        'JSON {"host IP, pod IP or pod": "node"}, for addresses that no agent reports',
        None,
        existing_file,
    )
    add.flag("goldpinger-interval-seconds", "time between polls (default {default})", 30.0, positive_number)
    add.flag("delay-matrix", "static round trips in ms, reloaded when the file changes", None, existing_file)
    add.flag("delay-metadata", 'JSON {"node": row}: the node of each row of --delay-matrix', None, existing_file)
    add.switch("no-estimates", "do not estimate pairs that nobody measured")
    add.flag(
        "initial-layers",
        "round trips that bound the node groups, where the policy sets none",
        "",
        layers_ms,
        also=["INITIAL_CLUSTER_LAYERS"],
        metavar="MS[,MS]",
    )


def settings(args: argparse.Namespace) -> DelaySettings:
    """The delay sources. ValueError, with what to do, when the flags do not fit together."""
    if (args.delay_matrix is None) is not (args.delay_metadata is None):
        raise ValueError("--delay-matrix and --delay-metadata belong together; give both or neither")
    return DelaySettings(
        goldpinger_url=args.goldpinger,
        goldpinger_names_file=args.goldpinger_names,
        goldpinger_interval_seconds=args.goldpinger_interval_seconds,
        matrix=args.delay_matrix,
        metadata=args.delay_metadata,
        estimates=not args.no_estimates,
        initial_layers_ms=args.initial_layers,
    )


def layers_ms(text: str) -> tuple[float, ...]:
    """Milliseconds, comma-separated; also in brackets, as in the INITIAL_CLUSTER_LAYERS of earlier deployments."""
    found = [part.strip() for part in text.strip().removeprefix("[").removesuffix("]").split(",") if part.strip()]
    try:
        limits = tuple(map(float, found))
    except ValueError:
        limits = (-1.0,)
    if not all(0 <= limit <= 60_000 for limit in limits):
        raise argparse.ArgumentTypeError(f"{text!r}: want milliseconds, 0 to 60000, comma-separated")
    return limits
