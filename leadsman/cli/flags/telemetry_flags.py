"""Flags of telemetry policies: where the metrics come from."""

import argparse
from pathlib import Path

from leadsman.cli.flags.options import Options
from leadsman.cli.flags.values import existing_file, positive_number
from leadsman.kube.access import ApiAccess, ApiAccessError, access_from_url
from leadsman.sources.telemetry import prometheus
from leadsman.sources.telemetry.prometheus import PrometheusQueries, parse_queries
from leadsman.sources.telemetry.telemetry_sources import SOURCE_NAMES, TelemetrySettings

SOURCE_SYNTAX = "agents, custom-metrics, prometheus=URL"


def options(add: Options) -> None:
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
    add.flag("sync-seconds", "time between two polls of metrics (default {default})", 5.0, positive_number)
    add.flag(
        "metric-age-seconds",
        "time for which a polled value counts, where the policy sets none (default {default})",
        15.0,
        positive_number,
    )


def source_list(text: str) -> tuple[str, ...]:
    """Metric sources in the order given, each once; prometheus with its URL."""
    found = tuple(part.strip() for part in text.split(",") if part.strip())
    names = [_name(part) for part in found]
    if not found or not set(names) <= set(SOURCE_NAMES) or len(set(names)) < len(names):
        raise argparse.ArgumentTypeError(f"{text!r}: want some of {SOURCE_SYNTAX}, comma-separated, each once")
    if any((_name(part) == prometheus.NAME) is not bool(_url(part)) for part in found):
        raise argparse.ArgumentTypeError(
            f"{text!r}: prometheus, and no other source, takes a URL: prometheus=http://HOST:PORT"
        )
    return found


def settings(args: argparse.Namespace, api: ApiAccess | None) -> TelemetrySettings | None:
    """How policies are followed; None: they are not. ValueError when the flags do not fit together."""
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
