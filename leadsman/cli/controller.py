"""`leadsman controller`: label nodes as telemetry policies say, and wake pods that were refused."""

import argparse
import socket
from uuid import uuid4

from controller.run import ControllerSettings, run
from leadsman.cli import delay_flags, telemetry_flags
from leadsman.cli.options import (
    Options,
    api_access,
    etcd_access,
    existing_file,
    listen_address,
    positive_int,
    positive_number,
    split_host_port,
)
from leadsman.planning.labels.model import LabelLimits
from leadsman.runtime.process import run_until_stopped
from leadsman.sources.telemetry.telemetry_sources import AGENTS_SOURCE, TelemetrySettings

DEFAULT_LIMITS = LabelLimits()


def options(add: Options) -> None:
    add.switch("dry-run", "show the plan in the log and at /plan; write nothing")
    acting = add.group("acting")
    acting.flag("patches-per-second", "of nodes, at most (default 200)", 200.0, positive_number, metavar="N")
    acting.flag("lease-namespace", "of the Lease (default leadsman)", "leadsman", also=["POD_NAMESPACE"])
    acting.flag("lease-name", "of the Lease: one a cluster (default leadsman-controller)", "leadsman-controller")
    acting.flag("listen", "/metrics, /healthz, /readyz, /plan (default 0.0.0.0:9003)", "0.0.0.0:9003", listen_address)
    acting.flag(
        "policy",
        "the extender's policy file, for wake-ups; reloaded when it changes",
        None,
        existing_file,
        metavar="FILE",
    )
    limit_options(add.group("restraint"))
    delay_flags.options(add.group("delays besides our agents' own, as the extender's, for wake-ups (docs/delays.md)"))
    telemetry_flags.options(add.group("telemetry policies; without --telemetry on the agents' metrics"))
    add.api_server()
    add.etcd()
    add.log_level()


def limit_options(add: Options) -> None:
    """failure-safe defaults: leadsman.planning.labels.label_planner.LabelLimits says what each means."""
    add.flag(
        "most-marked-ratio",
        "of all nodes that may carry a deschedule mark; one node may always "
        f"(default {DEFAULT_LIMITS.max_marked_ratio:g})",
        DEFAULT_LIMITS.max_marked_ratio,
        positive_number,
    )
    add.flag(
        "marks-per-second",
        f"new deschedule marks (default {DEFAULT_LIMITS.marks_per_second:g})",
        DEFAULT_LIMITS.marks_per_second,
        positive_number,
    )
    add.flag(
        "hold-seconds", "a label stays at least so long (default 60)", DEFAULT_LIMITS.hold_seconds, positive_number
    )
    add.flag(
        "leave-ratio",
        "a violation of T ends at this times T (default 0.8)",
        DEFAULT_LIMITS.leave_ratio,
        positive_number,
    )
    add.flag(
        "most-flips-per-hour",
        "of one label; then it is frozen (default 6)",
        DEFAULT_LIMITS.max_flips_per_hour,
        positive_int,
    )
    add.flag(
        "least-fresh-ratio",
        "of the nodes that report a metric; below it nothing is changed (default 0.5)",
        DEFAULT_LIMITS.min_fresh_ratio,
        positive_number,
    )
    add.switch("adopt", "take over the labels that Telemetry Aware Scheduling left behind")


def settings(args: argparse.Namespace) -> ControllerSettings:
    """ValueError, with what to do, when the flags do not fit together."""
    return ControllerSettings(
        etcd=etcd_access(args),
        telemetry=telemetry_settings(args),
        identity=f"{socket.gethostname()}-{uuid4().hex[:8]}",
        policy=args.policy,
        delays=delay_flags.settings(args),
        limits=limits(args),
        lease=(args.lease_namespace, args.lease_name),
        patches_per_second=args.patches_per_second,
        listen=split_host_port(args.listen),
        dry_run=args.dry_run,
    )


def main(args: argparse.Namespace) -> int:
    wanted = settings(args)
    return run_until_stopped(lambda stop: run(wanted, stop))


def limits(args: argparse.Namespace) -> LabelLimits:
    return LabelLimits(
        args.most_marked_ratio,
        args.marks_per_second,
        args.hold_seconds,
        args.leave_ratio,
        args.most_flips_per_hour,
        args.least_fresh_ratio,
        args.adopt,
    )


def telemetry_settings(args: argparse.Namespace) -> TelemetrySettings:
    """ApiAccessError, which is a ValueError, when there is no API server to follow."""
    api = api_access(args)
    return telemetry_flags.settings(args, api) or TelemetrySettings((AGENTS_SOURCE,), api)
