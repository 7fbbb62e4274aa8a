"""Flags of what the controller says of nodes and devices that fail."""

import argparse

from controller.settings import DeviceHealthMode, NodeHealthMode, NodeHealthSettings
from leadsman.cli.flags.options import Options
from leadsman.cli.flags.values import one_of, positive_number
from leadsman.planning.failover.model import DetectionRules


def options(add: Options) -> None:
    add.flag(
        "node-health",
        "off, or report: which nodes are suspect, cut off or dead is shown as the condition LeadsmanUnreachable, in "
        "Events and metrics; needs the component node-health (default {default})",
        NodeHealthMode.OFF.value,
        one_of(*(mode.value for mode in NodeHealthMode)),
        metavar="MODE",
    )
    add.flag(
        "device-health",
        "off, dry-run, or act: pods are kept off devices of which dcgm-exporter reports faults, by DeviceTaintRules or "
        "a label of the node; needs --telemetry prometheus=URL and the component device-health (default {default})",
        DeviceHealthMode.OFF.value,
        one_of(*(mode.value for mode in DeviceHealthMode)),
        metavar="MODE",
    )
    add.flag(
        "agent-call-timeout-seconds",
        "--call-timeout-seconds of the agents: a heartbeat may stand still for two push intervals and this "
        "(default {default})",
        DetectionRules().call_timeout_seconds,
        positive_number,
    )


def settings(args: argparse.Namespace) -> NodeHealthSettings:
    rules = DetectionRules(call_timeout_seconds=args.agent_call_timeout_seconds)
    return NodeHealthSettings(NodeHealthMode(args.node_health), rules)
