"""`leadsman controller`: label nodes as telemetry policies say, and requeue pods that the extender refused."""

import argparse
import socket
from uuid import uuid4

from controller.run import run
from controller.settings import DEFAULT_PATCHES_PER_SECOND, ControllerSettings, DeviceHealthMode
from leadsman.cli.flags import (
    api_server_flags,
    decision_flags,
    delay_flags,
    etcd_flags,
    label_limit_flags,
    log_flags,
    node_health_flags,
    self_healing_flags,
    telemetry_flags,
)
from leadsman.cli.flags.options import Options
from leadsman.cli.flags.values import listen_address, namespace_name, object_name, positive_number, split_host_port
from leadsman.runtime.process import run_until_stopped
from leadsman.sources.telemetry.telemetry_sources import AGENTS_SOURCE, TelemetrySettings


def options(add: Options) -> None:
    add.switch("dry-run", "show the plan in the log and at /plan, and write nothing")
    add.switch("placement-events", "write an Event on each pod with a delay bound that was placed: its node's delay")
    acting_options(add.group("acting"))
    decision_flags.options(add.group("deciding, as the extender does"))
    label_limit_flags.options(add.group("limits"))
    node_health_flags.options(add.group("node health (docs/self-healing.md)"))
    self_healing_flags.options(add.group("self-healing (docs/self-healing.md)"))
    delay_flags.options(add.group("delays besides the agents' own, as for the extender (docs/delays.md)"))
    telemetry_flags.options(add.group("telemetry policies; without --telemetry on the agents' metrics"))
    api_server_flags.options(add)
    etcd_flags.options(add)
    log_flags.options(add)


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
    """What the controller runs with. ValueError, with what to do, when the flags do not fit together."""
    return ControllerSettings(
        etcd=etcd_flags.settings(args),
        telemetry=telemetry_settings(args),
        identity=f"{socket.gethostname()}-{uuid4().hex[:8]}",
        policy=args.policy,
        delays=delay_flags.settings(args),
        limits=label_limit_flags.settings(args),
        lease=(args.lease_namespace, args.lease_name),
        patches_per_second=args.patches_per_second,
        listen=split_host_port(args.listen),
        dry_run=args.dry_run,
        placement_events=args.placement_events,
        self_healing=self_healing_flags.settings(args),
        devices=args.devices,
        device_health=DeviceHealthMode(args.device_health),
        node_health=node_health_flags.settings(args),
    )


def telemetry_settings(args: argparse.Namespace) -> TelemetrySettings:
    """Where policies and metrics come from. ApiAccessError, a ValueError, when no API server is configured."""
    api = api_server_flags.settings(args)
    return telemetry_flags.settings(args, api) or TelemetrySettings((AGENTS_SOURCE,), api)


def main(args: argparse.Namespace) -> int:
    controller_settings = settings(args)
    return run_until_stopped(lambda stop: run(controller_settings, stop))
