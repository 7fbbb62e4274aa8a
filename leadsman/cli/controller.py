"""`leadsman controller`: label nodes as telemetry policies say, and requeue pods that the extender refused."""

import argparse
import socket
from uuid import uuid4

from controller.run import run
from controller.settings import DEFAULT_PATCHES_PER_SECOND, ControllerSettings
from leadsman.cli.flags import decision_flags, process_flags, self_healing_flags
from leadsman.cli.flags.options import Fields, Options, from_flags
from leadsman.cli.flags.values import listen_address, namespace_name, object_name, split_host_port
from leadsman.planning.labels.label_plan import LabelLimits
from leadsman.runtime.process import run_until_stopped
from leadsman.sources.telemetry.telemetry_sources import AGENTS_SOURCE, TelemetrySettings

LIMITS: Fields = {
    "max_marked_ratio": (
        "max-marked-ratio",
        "share of all nodes that may carry a deschedule mark; one node always may",
    ),
    "marks_per_second": ("marks-per-second", "largest number of new deschedule marks a second"),
    "hold_seconds": ("hold-seconds", "shortest time for which a label stays"),
    "leave_ratio": (
        "recovery-ratio",
        "a node's violation of threshold T ends when the metric is below RATIO x T (default {default}; 1: at T)",
    ),
    "max_flips_per_hour": ("max-flips-per-hour", "changes of a label, or of all of a node, after which it is frozen"),
    "min_fresh_ratio": (
        "min-fresh-ratio",
        "share of the nodes with a metric that must be fresh; below it no label changes",
    ),
}
"""Fields of LabelLimits, which documents each."""


def options(add: Options) -> None:
    add.switch("dry-run", "show the plan in the log and at /plan, and write nothing")
    add.switch("placement-events", "write an Event on each pod with a delay bound that was placed: its node's delay")
    process_flags.etcd_options(add)
    acting_options(add.group("acting"))
    decision_flags.decision_options(add.group("deciding, as the extender does"))
    limits = add.group("limits")
    limits.fields(LabelLimits(), LIMITS)
    limits.switch("adopt", "take over the labels that Telemetry Aware Scheduling left behind")
    self_healing_flags.node_health_options(add.group("node health (docs/self-healing.md)"))
    self_healing_flags.options(add.group("self-healing (docs/self-healing.md)"))
    decision_flags.delay_options(add.group("delays besides the agents' own, as for the extender (docs/delays.md)"))
    decision_flags.telemetry_options(add.group("telemetry policies; without --telemetry on the agents' metrics"))
    process_flags.api_server_options(add)
    process_flags.log_options(add)


def acting_options(add: Options) -> None:
    add.flag("patches-per-second", "largest number of node patches a second", DEFAULT_PATCHES_PER_SECOND)
    add.flag("lease-namespace", "namespace of the Lease", "leadsman", namespace_name, also=["POD_NAMESPACE"])
    add.flag("lease-name", "name of the Lease, one a cluster", "leadsman-controller", object_name)
    add.flag(
        "listen",
        "address of /metrics, /healthz, /readyz and /plan",
        "0.0.0.0:9003",
        listen_address,
        variable="LEADSMAN_CONTROLLER_LISTEN",
    )


def settings(args: argparse.Namespace) -> ControllerSettings:
    """Returns the controller's settings. ValueError, with what to do, when the flags do not fit together."""
    return ControllerSettings(
        etcd=process_flags.etcd_access(args),
        telemetry=telemetry_settings(args),
        identity=f"{socket.gethostname()}-{uuid4().hex[:8]}",
        policy=args.policy,
        delays=decision_flags.delay_settings(args),
        limits=from_flags(args, LabelLimits, LIMITS, adopt=args.adopt),
        lease=(args.lease_namespace, args.lease_name),
        patches_per_second=args.patches_per_second,
        listen=split_host_port(args.listen),
        dry_run=args.dry_run,
        placement_events=args.placement_events,
        self_healing=self_healing_flags.settings(args),
        devices=args.devices,
        device_health=args.device_health,
        node_health=self_healing_flags.node_health_rules(args),
    )


def telemetry_settings(args: argparse.Namespace) -> TelemetrySettings:
    """Returns where policies and metrics come from. ApiAccessError, a ValueError, when no API server is configured."""
    api = process_flags.api_access(args)
    return decision_flags.telemetry_settings(args, api) or TelemetrySettings((AGENTS_SOURCE,), api)


def main(args: argparse.Namespace) -> int:
    controller_settings = settings(args)
    return run_until_stopped(lambda stop: run(controller_settings, stop))
