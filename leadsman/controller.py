"""`leadsman controller`: label nodes as telemetry policies say, and wake pods that were refused."""

import argparse
import socket
from uuid import uuid4

from controller.run import Settings, run
from decision.remedies import Limits
from leadsman import delay_flags, telemetry_flags
from leadsman.options import Options, access, address, api_server, count, existing_file, host_and_port, positive
from leadsman.process import until_stopped
from telemetry.sources import AGENTS, TelemetrySettings

DEFAULTS = Limits()


def options(add: Options) -> None:
    add.switch("dry-run", "show the plan in the log and at /plan; write nothing")
    acting = add.group("acting")
    acting.flag("patches-per-second", "of nodes, at most (default 200)", 200.0, positive, metavar="N")
    acting.flag("lease-namespace", "of the Lease (default leadsman)", "leadsman", also=["POD_NAMESPACE"])
    acting.flag("lease-name", "of the Lease: one a cluster (default leadsman-controller)", "leadsman-controller")
    acting.flag("listen", "/metrics, /healthz, /readyz, /plan (default 0.0.0.0:9003)", "0.0.0.0:9003", address)
    acting.flag(
        "policy",
        "the extender's policy file, for wake-ups; reloaded when it changes",
        None,
        existing_file,
        metavar="FILE",
    )
    restraint(add.group("restraint"))
    delay_flags.options(add.group("delays besides our agents' own, as the extender's, for wake-ups (docs/delays.md)"))
    telemetry_flags.options(add.group("telemetry policies; without --telemetry on the agents' metrics"))
    add.api_server()
    add.etcd()
    add.log_level()


def restraint(add: Options) -> None:
    """failure-safe defaults: decision.remedies.Limits says what each means."""
    add.flag(
        "most-marked-ratio",
        f"of all nodes that may carry a deschedule mark; one node may always (default {DEFAULTS.most_marked_ratio:g})",
        DEFAULTS.most_marked_ratio,
        positive,
    )
    add.flag(
        "marks-per-second",
        f"new deschedule marks (default {DEFAULTS.marks_per_second:g})",
        DEFAULTS.marks_per_second,
        positive,
    )
    add.flag("hold-seconds", "a label stays at least so long (default 60)", DEFAULTS.hold_seconds, positive)
    add.flag("leave-ratio", "a violation of T ends at this times T (default 0.8)", DEFAULTS.leave_ratio, positive)
    add.flag("most-flips-per-hour", "of one label; then it is frozen (default 6)", DEFAULTS.most_flips_per_hour, count)
    add.flag(
        "least-fresh-ratio",
        "of the nodes that report a metric; below it nothing is changed (default 0.5)",
        DEFAULTS.least_fresh_ratio,
        positive,
    )
    add.switch("adopt", "take over the labels that Telemetry Aware Scheduling left behind")


def settings(args: argparse.Namespace) -> Settings:
    """ValueError, with what to do, when the flags do not fit together."""
    return Settings(
        etcd=access(args),
        telemetry=telemetry(args),
        identity=f"{socket.gethostname()}-{uuid4().hex[:8]}",
        policy=args.policy,
        delays=delay_flags.choice(args),
        limits=limits(args),
        lease=(args.lease_namespace, args.lease_name),
        patches_per_second=args.patches_per_second,
        listen=host_and_port(args.listen),
        dry_run=args.dry_run,
    )


def main(args: argparse.Namespace) -> int:
    wanted = settings(args)
    return until_stopped(lambda stop: run(wanted, stop))


def limits(args: argparse.Namespace) -> Limits:
    return Limits(
        args.most_marked_ratio,
        args.marks_per_second,
        args.hold_seconds,
        args.leave_ratio,
        args.most_flips_per_hour,
        args.least_fresh_ratio,
        args.adopt,
    )


def telemetry(args: argparse.Namespace) -> TelemetrySettings:
    """BadAccess, which is a ValueError, when there is no API server to follow."""
    api = api_server(args)
    return telemetry_flags.settings(args, api) or TelemetrySettings((AGENTS,), api)
