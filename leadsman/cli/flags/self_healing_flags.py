"""Adds the flags of node health and of self-healing: backups, failover, re-placement, plans of moves, re-balancing.

Each is off by default, and its numbers are those of the struct that it runs with.
"""

import argparse

from controller.settings import DeviceHealthMode, PlaceholderSettings, SelfHealingSettings
from leadsman.cli.flags.options import Fields, Options, from_flags
from leadsman.cli.flags.values import image_reference, label_key, object_name, one_of
from leadsman.planning.backups.backup_plan import BackupSettings
from leadsman.planning.failover.node_verdict import DetectionRules
from leadsman.planning.moves.plan_run import MovePlanLimits
from leadsman.planning.rebalance_plan import RebalanceSettings
from leadsman.planning.recovery_plan import FAILOVER_OFF, RecoveryBudget
from leadsman.planning.replacement_plan import ReplacementSettings

OFF = "off"

BACKUPS: Fields = {
    "default_scope": (
        "backup-scope",
        "largest failure that a bounded pod survives unless it says otherwise: none, node, rack or zone",
    )
}
FAILOVER: Fields = {
    "least_nodes": ("failover-nodes", "nodes that may be failed over within the window, at least"),
    "nodes_ratio": ("failover-ratio", "share of all nodes that may be, if that is more"),
    "window_seconds": ("failover-window-seconds", "window of that budget"),
}
REPLACEMENT: Fields = {
    "hold_seconds": (
        "replacement-hold-seconds",
        "how long a delay must be over its bound, or a pod be pending, before a pod is moved",
    ),
    "per_minute": ("replacements-per-minute", "largest number of pods that are moved a minute"),
}
MOVE_PLANS: Fields = {
    "per_minute": ("plan-moves-per-minute", "largest number of a plan's moves that begin within a minute"),
    "max_failures": ("plan-max-failures", "moves of a plan that fail before it is aborted"),
}
REBALANCE: Fields = {
    "threshold": ("rebalance-threshold", "points by which the gain of a move must exceed its cost"),
    "max_moves": ("rebalance-max-moves", "largest number of moves of one plan"),
}


def options(add: Options) -> None:
    add.switch(
        "backups",
        "give pods with a delay bound a backup node, whose room placeholders hold, and keep them off dead and suspect "
        "nodes; needs --node-health=report and the component self-healing",
    )
    add.fields(BackupSettings(), BACKUPS)
    add.flag("rack-label", "label of nodes that names their rack", BackupSettings().rack_label, label_key)
    placeholders = PlaceholderSettings()
    add.flag("placeholder-image", "image of placeholders, which must do nothing", placeholders.image, image_reference)
    add.flag("placeholder-scheduler", "scheduler that places placeholders", placeholders.scheduler, object_name)
    add.switch(
        "failover",
        "taint dead nodes and delete their covered pods, so that their owners make new ones on the backups; needs "
        "--backups and the component self-healing",
    )
    add.fields(RecoveryBudget(), FAILOVER)
    add.switch(
        "replacement",
        "move a pod whose delay left its bound, and one that is in the way of a pending pod, where every bound is "
        "kept; needs --backups and the component self-healing",
    )
    add.fields(ReplacementSettings(), REPLACEMENT)
    add.switch(
        "move-plans",
        "carry out plans of moves that `leadsman plan apply` hands over; needs --backups and the component move-plans",
    )
    add.fields(MovePlanLimits(), MOVE_PLANS)
    add.switch(
        "rebalance",
        "move pods to nodes that serve them better by more than a move costs; needs --move-plans and the component "
        "rebalance",
    )
    add.fields(RebalanceSettings(), REBALANCE)


def settings(args: argparse.Namespace) -> SelfHealingSettings:
    """Returns the settings of self-healing. Raises ValueError when a switch lacks the one that it needs."""
    if args.failover and not args.backups:
        raise ValueError("--failover needs --backups: a pod is only deleted once another node holds its room")
    if args.backups and args.node_health == OFF:
        raise ValueError("--backups needs --node-health=report, which says which nodes are suspect or dead")
    for flag, given in (("--replacement", args.replacement), ("--move-plans", args.move_plans)):
        if given and not args.backups:
            raise ValueError(f"{flag} needs --backups, whose namespace and PriorityClass its holding pods use")
    if args.rebalance and not args.move_plans:
        raise ValueError("--rebalance needs --move-plans, which carries its plans out")
    replacement = from_flags(args, ReplacementSettings, REPLACEMENT, mends=args.replacement)
    return SelfHealingSettings(
        enabled=args.backups,
        backups=from_flags(args, BackupSettings, BACKUPS, rack_label=args.rack_label),
        placeholders=PlaceholderSettings(args.placeholder_image, args.placeholder_scheduler),
        budget=from_flags(args, RecoveryBudget, FAILOVER) if args.failover else FAILOVER_OFF,
        replacement=replacement if args.replacement or args.move_plans else None,
        move_plans=from_flags(args, MovePlanLimits, MOVE_PLANS) if args.move_plans else None,
        rebalance=from_flags(args, RebalanceSettings, REBALANCE) if args.rebalance else None,
    )


def node_health_options(add: Options) -> None:
    add.flag(
        "node-health",
        "off, or report: which nodes are suspect, cut off or dead is shown as the condition LeadsmanUnreachable, in "
        "Events and metrics; needs the component self-healing",
        OFF,
        one_of(OFF, "report"),
        metavar="MODE",
    )
    add.flag(
        "device-health",
        "off, dry-run, or act: pods are kept off devices of which dcgm-exporter reports faults, by DeviceTaintRules or "
        "a label of the node; needs --telemetry prometheus=URL and the component device-health",
        DeviceHealthMode.OFF,
        metavar="MODE",
    )
    add.flag(
        "agent-call-timeout-seconds",
        "--call-timeout-seconds of the agents: a heartbeat may stand still for two push intervals and this",
        DetectionRules().call_timeout_seconds,
    )


def node_health_rules(args: argparse.Namespace) -> DetectionRules | None:
    """Returns the rules by which nodes are judged; None: they are not judged."""
    return None if args.node_health == OFF else DetectionRules(call_timeout_seconds=args.agent_call_timeout_seconds)
