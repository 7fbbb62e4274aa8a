"""`leadsman controller`: label nodes as telemetry policies say, and requeue pods that the extender refused."""

import argparse
import socket
from uuid import uuid4

from controller.device_health import DeviceHealthMode
from controller.node_health import NodeHealthMode, NodeHealthSettings
from controller.plan_server import PlanServerSettings
from controller.run import ControllerSettings, run
from leadsman.cli import delay_flags, self_healing_flags, telemetry_flags
from leadsman.cli.options import (
    DEVICES_HELP,
    POLICY_HELP,
    Options,
    api_access,
    client_names,
    etcd_access,
    existing_file,
    existing_folder,
    listen_address,
    namespace_name,
    object_name,
    one_of,
    positive_int,
    positive_number,
    split_host_port,
)
from leadsman.planning.failover.model import DetectionRules
from leadsman.planning.labels.model import LabelLimits
from leadsman.runtime.process import run_until_stopped
from leadsman.sources.telemetry.telemetry_sources import AGENTS_SOURCE, TelemetrySettings

DEFAULT_LIMITS, DEFAULT_RULES = LabelLimits(), DetectionRules()


def options(add: Options) -> None:
    add.switch("dry-run", "show the plan in the log and at /plan, and write nothing")
    add.switch("placement-events", "write an Event on each pod with a delay bound that was placed: its node's delay")
    add.switch("devices", DEVICES_HELP)
    acting = add.group("acting")
    acting.flag(
        "patches-per-second",
        "largest number of node patches a second (default 200)",
        200.0,
        positive_number,
        metavar="N",
    )
    acting.flag(
        "lease-namespace",
        "namespace of the Lease (default leadsman)",
        "leadsman",
        namespace_name,
        also=["POD_NAMESPACE"],
        metavar="NAMESPACE",
    )
    acting.flag(
        "lease-name",
        "name of the Lease, one a cluster (default leadsman-controller)",
        "leadsman-controller",
        object_name,
        metavar="NAME",
    )
    acting.flag(
        "listen",
        "address of /metrics, /healthz, /readyz and /plan (default 0.0.0.0:9003)",
        "0.0.0.0:9003",
        listen_address,
        variable="LEADSMAN_CONTROLLER_LISTEN",
        metavar="HOST:PORT",
    )
    acting.flag(
        "policy",
        POLICY_HELP,
        None,
        existing_file,
        metavar="FILE",
    )
    limit_options(add.group("limits"))
    health_options(add.group("node health (docs/self-healing.md)"))
    self_healing_flags.options(add.group("self-healing (docs/self-healing.md)"))
    delay_flags.options(add.group("delays besides the agents' own, as for the extender (docs/delays.md)"))
    telemetry_flags.options(add.group("telemetry policies; without --telemetry on the agents' metrics"))
    plan = add.group("the plan, which extenders show on the page (docs/api.md); both or none")
    plan.flag("plan-listen", "address that extenders ask for the plan", None, listen_address, metavar="HOST:PORT")
    plan.flag(
        "plan-tls",
        "folder with tls.crt, tls.key and ca.crt, of a certificate that extenders and controllers show each other",
        None,
        existing_folder,
        metavar="DIR",
    )
    plan.flag(
        "plan-client-name",
        "names of extenders' certificates that may ask (default leadsman-replicas)",
        frozenset({"leadsman-replicas"}),
        client_names,
        metavar="NAME[,NAME]",
    )
    add.api_server()
    add.etcd()
    add.log_level()


def limit_options(add: Options) -> None:
    """Flags of LabelLimits, which documents each."""
    limits = DEFAULT_LIMITS
    add.flag(
        "max-marked-ratio",
        "share of all nodes that may carry a deschedule mark; one node always may "
        f"(default {limits.max_marked_ratio:g})",
        limits.max_marked_ratio,
        positive_number,
        aliases=["most-marked-ratio"],
        metavar="RATIO",
    )
    add.flag(
        "marks-per-second",
        f"largest number of new deschedule marks a second (default {limits.marks_per_second:g})",
        limits.marks_per_second,
        positive_number,
        metavar="N",
    )
    add.flag(
        "hold-seconds",
        f"shortest time for which a label stays (default {limits.hold_seconds:g})",
        limits.hold_seconds,
        positive_number,
        metavar="S",
    )
    add.flag(
        "recovery-ratio",
        "a node's violation of threshold T ends when the metric is below RATIO x T "
        f"(default {limits.leave_ratio:g}; 1: at T)",
        limits.leave_ratio,
        positive_number,
        aliases=["leave-ratio"],
        metavar="RATIO",
    )
    add.flag(
        "max-flips-per-hour",
        f"changes of a label, or of all of a node, after which it is frozen (default {limits.max_flips_per_hour})",
        limits.max_flips_per_hour,
        positive_int,
        aliases=["most-flips-per-hour"],
        metavar="N",
    )
    add.flag(
        "min-fresh-ratio",
        "share of the nodes with a metric that must be fresh; below it no label changes "
        f"(default {limits.min_fresh_ratio:g})",
        limits.min_fresh_ratio,
        positive_number,
        aliases=["least-fresh-ratio"],
        metavar="RATIO",
    )
    add.switch("adopt", "take over the labels that Telemetry Aware Scheduling left behind")


def health_options(add: Options) -> None:
    add.flag(
        "node-health",
        "off, or report: which nodes are suspect, cut off or dead is shown as the condition LeadsmanUnreachable, in "
        "Events and metrics; needs the component node-health (default off)",
        NodeHealthMode.OFF.value,
        one_of(*(mode.value for mode in NodeHealthMode)),
        metavar="MODE",
    )
    add.flag(
        "device-health",
        "off, dry-run, or act: pods are kept off devices of which dcgm-exporter reports faults, by DeviceTaintRules or "
        "a label of the node; needs --telemetry prometheus=URL and the component device-health (default off)",
        DeviceHealthMode.OFF.value,
        one_of(*(mode.value for mode in DeviceHealthMode)),
        metavar="MODE",
    )
    add.flag(
        "agent-call-timeout-seconds",
        "--call-timeout-seconds of the agents: a heartbeat may stand still for two push intervals and this "
        f"(default {DEFAULT_RULES.call_timeout_seconds:g})",
        DEFAULT_RULES.call_timeout_seconds,
        positive_number,
        metavar="S",
    )


def settings(args: argparse.Namespace) -> ControllerSettings:
    """What the controller runs with. ValueError, with what to do, when the flags do not fit together."""
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
        placement_events=args.placement_events,
        self_healing=self_healing_flags.settings(args),
        devices=args.devices,
        device_health=DeviceHealthMode(args.device_health),
        node_health=NodeHealthSettings(
            NodeHealthMode(args.node_health), DetectionRules(call_timeout_seconds=args.agent_call_timeout_seconds)
        ),
        plan_server=_plan_server(args),
    )


def _plan_server(args: argparse.Namespace) -> PlanServerSettings | None:
    if args.plan_listen is None and args.plan_tls is None:
        return None
    if args.plan_listen is None or args.plan_tls is None:
        missing = "--plan-listen" if args.plan_listen is None else "--plan-tls"
        raise ValueError(f"{missing} not given; --plan-listen and --plan-tls go together")
    return PlanServerSettings(split_host_port(args.plan_listen), args.plan_tls, args.plan_client_name)


def main(args: argparse.Namespace) -> int:
    controller_settings = settings(args)
    return run_until_stopped(lambda stop: run(controller_settings, stop))


def limits(args: argparse.Namespace) -> LabelLimits:
    return LabelLimits(
        args.max_marked_ratio,
        args.marks_per_second,
        args.hold_seconds,
        args.recovery_ratio,
        args.max_flips_per_hour,
        args.min_fresh_ratio,
        args.adopt,
    )


def telemetry_settings(args: argparse.Namespace) -> TelemetrySettings:
    """Where policies and metrics come from. ApiAccessError, a ValueError, when no API server is configured."""
    api = api_access(args)
    return telemetry_flags.settings(args, api) or TelemetrySettings((AGENTS_SOURCE,), api)
