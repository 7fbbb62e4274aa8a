"""`leadsman controller`: label nodes as telemetry policies say, and requeue pods that the extender refused."""

import argparse
import socket
from uuid import uuid4

from controller.run import run
from controller.settings import DEFAULT_PATCHES_PER_SECOND, ControllerSettings, DeviceHealthMode
from leadsman.cli.flags import decision_flags, process_flags, self_healing_flags
from leadsman.cli.flags.options import Options
from leadsman.cli.flags.values import (
    listen_address,
    namespace_name,
    object_name,
    positive_int,
    positive_number,
    split_host_port,
)
from leadsman.planning.labels.label_plan import LabelLimits
from leadsman.runtime.process import run_until_stopped
from leadsman.sources.telemetry.telemetry_sources import AGENTS_SOURCE, TelemetrySettings


def options(add: Options) -> None:
    add.switch("dry-run", "show the plan in the log and at /plan, and write nothing")
    add.switch("placement-events", "write an Event on each pod with a delay bound that was placed: its node's delay")
    process_flags.etcd_options(add)
    acting_options(add.group("acting"))
    decision_flags.decision_options(add.group("deciding, as the extender does"))
    label_limit_options(add.group("limits"))
    self_healing_flags.node_health_options(add.group("node health (docs/self-healing.md)"))
    self_healing_flags.options(add.group("self-healing (docs/self-healing.md)"))
    decision_flags.delay_options(add.group("delays besides the agents' own, as for the extender (docs/delays.md)"))
    decision_flags.telemetry_options(add.group("telemetry policies; without --telemetry on the agents' metrics"))
    process_flags.api_server_options(add)
    process_flags.log_options(add)


def acting_options(add: Options) -> None:
    add.flag(
        "patches-per-second",
        "largest number of node patches a second (default {default})",
        DEFAULT_PATCHES_PER_SECOND,
        positive_number,
    )
    add.flag(
        "lease-namespace",
        "namespace of the Lease (default {default})",
        "leadsman",
        namespace_name,
        also=["POD_NAMESPACE"],
    )
    add.flag("lease-name", "name of the Lease, one a cluster (default {default})", "leadsman-controller", object_name)
    add.flag(
        "listen",
        "address of /metrics, /healthz, /readyz and /plan (default {default})",
        "0.0.0.0:9003",
        listen_address,
        variable="LEADSMAN_CONTROLLER_LISTEN",
    )


def settings(args: argparse.Namespace) -> ControllerSettings:
    """Returns what the controller runs with. ValueError, with what to do, when the flags do not fit together."""
    return ControllerSettings(
        etcd=process_flags.etcd_access(args),
        telemetry=telemetry_settings(args),
        identity=f"{socket.gethostname()}-{uuid4().hex[:8]}",
        policy=args.policy,
        delays=decision_flags.delay_settings(args),
        limits=label_limits(args),
        lease=(args.lease_namespace, args.lease_name),
        patches_per_second=args.patches_per_second,
        listen=split_host_port(args.listen),
        dry_run=args.dry_run,
        placement_events=args.placement_events,
        self_healing=self_healing_flags.settings(args),
        devices=args.devices,
        device_health=DeviceHealthMode(args.device_health),
        node_health=self_healing_flags.node_health_rules(args),
    )


def telemetry_settings(args: argparse.Namespace) -> TelemetrySettings:
    """Where policies and metrics come from. ApiAccessError, a ValueError, when no API server is configured."""
    api = process_flags.api_access(args)
    return decision_flags.telemetry_settings(args, api) or TelemetrySettings((AGENTS_SOURCE,), api)


def label_limit_options(add: Options) -> None:
    """Flags of LabelLimits, which documents each."""
    limits = LabelLimits()
    add.flag(
        "max-marked-ratio",
        "share of all nodes that may carry a deschedule mark; one node always may (default {default})",
        limits.max_marked_ratio,
        positive_number,
    )
    add.flag(
        "marks-per-second",
        "largest number of new deschedule marks a second (default {default})",
        limits.marks_per_second,
        positive_number,
    )
    add.flag(
        "hold-seconds",
        "shortest time for which a label stays (default {default})",
        limits.hold_seconds,
        positive_number,
    )
    add.flag(
        "recovery-ratio",
        "a node's violation of threshold T ends when the metric is below RATIO x T (default {default}; 1: at T)",
        limits.leave_ratio,
        positive_number,
    )
    add.flag(
        "max-flips-per-hour",
        "changes of a label, or of all of a node, after which it is frozen (default {default})",
        limits.max_flips_per_hour,
        positive_int,
    )
    add.flag(
        "min-fresh-ratio",
        "share of the nodes with a metric that must be fresh; below it no label changes (default {default})",
        limits.min_fresh_ratio,
        positive_number,
    )
    add.switch("adopt", "take over the labels that Telemetry Aware Scheduling left behind")


def label_limits(args: argparse.Namespace) -> LabelLimits:
    return LabelLimits(
        args.max_marked_ratio,
        args.marks_per_second,
        args.hold_seconds,
        args.recovery_ratio,
        args.max_flips_per_hour,
        args.min_fresh_ratio,
        args.adopt,
    )


def main(args: argparse.Namespace) -> int:
    controller_settings = settings(args)
    return run_until_stopped(lambda stop: run(controller_settings, stop))
