"""Adds the flags of what decisions are made by, alike for extender and controller: the policy, delays, telemetry.

The controller has a pod tried again when the extender's answer may have changed.
"""

import argparse
from pathlib import Path

from leadsman.cli.flags.options import Options
from leadsman.cli.flags.values import checked, existing_file, optional_url
from leadsman.kube.access import ApiAccess, ApiAccessError, access_from_url
from leadsman.sources.delay.delay_sources import DelaySettings
from leadsman.sources.telemetry import polling
from leadsman.sources.telemetry.polling import PrometheusQueries, parse_queries
from leadsman.sources.telemetry.telemetry_sources import SOURCE_NAMES, TelemetrySettings


def delay_options(add: Options) -> None:
    add.flag("goldpinger", "URL of Goldpinger, polled for /check_all", "", optional_url)
    add.flag("goldpinger-interval-seconds", "time between polls", 30.0)
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


def delay_settings(args: argparse.Namespace) -> DelaySettings:
    """Returns the delay sources. ValueError, with what to do, when the flags do not fit together."""
    if (args.delay_matrix is None) is not (args.delay_metadata is None):
        raise ValueError("--delay-matrix and --delay-metadata belong together; give both or neither")
    return DelaySettings(
        goldpinger_url=args.goldpinger,
        goldpinger_interval_seconds=args.goldpinger_interval_seconds,
        matrix=args.delay_matrix,
        metadata=args.delay_metadata,
        estimates=not args.no_estimates,
        initial_layers_ms=args.initial_layers,
    )


def layers_ms(text: str) -> tuple[float, ...]:
    """Parses milliseconds with commas, also in brackets, as in the INITIAL_CLUSTER_LAYERS of earlier deployments."""
    found = [part.strip() for part in text.strip().removeprefix("[").removesuffix("]").split(",") if part.strip()]
    try:
        limits = tuple(map(float, found))
    except ValueError:
        limits = (-1.0,)
    is_fine = all(0 <= limit <= 60_000 for limit in limits)
    checked(text, is_fine, "milliseconds, 0 to 60000, comma-separated")
    return limits


SOURCE_SYNTAX = "agents, custom-metrics, prometheus=URL"


def telemetry_options(add: Options) -> None:
    add.flag(
        "telemetry",
        f"follow TASPolicies on metrics from {SOURCE_SYNTAX}; the first source that has a metric counts "
        "(default: follow none; the controller: agents)",
        (),
        source_list,
        metavar="SOURCE[,SOURCE]",
    )
    add.flag("telemetry-queries", "PromQL of each metric, and the label that names the node", None, existing_file)
    add.flag("prometheus-ca", "CA of an https Prometheus, in PEM", None, existing_file)
    add.flag("prometheus-token-file", "file with the bearer token for Prometheus", None, existing_file)
    add.flag("sync-seconds", "time between two polls of metrics", 5.0)
    add.flag("metric-age-seconds", "time for which a polled value counts, where the policy sets none", 15.0)


def source_list(text: str) -> tuple[str, ...]:
    """Parses metric sources in the order given, each once; prometheus with its URL."""
    found = tuple(part.strip() for part in text.split(",") if part.strip())
    names = [_name(part) for part in found]
    is_fine = found and set(names) <= set(SOURCE_NAMES) and len(set(names)) == len(names)
    checked(text, is_fine, f"some of {SOURCE_SYNTAX}, comma-separated, each once")
    if any((_name(part) == polling.PROMETHEUS) is not bool(_url(part)) for part in found):
        raise argparse.ArgumentTypeError(
            f"{text!r}: prometheus, and no other source, takes a URL: prometheus=http://HOST:PORT"
        )
    return found


def telemetry_settings(args: argparse.Namespace, api: ApiAccess | None) -> TelemetrySettings | None:
    """Returns how policies are followed; None: they are not. Raises ValueError when the flags do not fit together."""
    if not args.telemetry:
        return None
    if api is None:
        raise ApiAccessError(
            "--telemetry needs an API server, which holds the policies; name it with --kube-api or --kubeconfig"
        )
    url = next(filter(None, map(_url, args.telemetry)), "")
    return TelemetrySettings(
        tuple(map(_name, args.telemetry)),
        api,
        access_from_url(url, args.prometheus_ca, args.prometheus_token_file) if url else None,
        _queries(args.telemetry_queries),
        args.sync_seconds,
        args.metric_age_seconds,
    )


def _name(part: str) -> str:
    return part.partition("=")[0]


def _url(part: str) -> str:
    return part.partition("=")[2]


def _queries(path: Path | None) -> PrometheusQueries:
    return parse_queries(path.read_text(), f"--telemetry-queries {path}") if path else PrometheusQueries()


def decision_options(add: Options) -> None:
    add.flag(
        "policy",
        "the policy file: the extender's weights and thresholds, reloaded when it changes",
        None,
        existing_file,
    )
    add.switch(
        "devices",
        "follow the devices of nodes and pods: an extender reserves bandwidth and parts of devices, a controller has "
        "refused pods tried again when there is room (docs/devices.md)",
    )
