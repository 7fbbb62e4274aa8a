"""Flags of node health and of self-healing: backups, failover, re-placement, plans of moves, re-balancing.

Each is off by default.
"""

import argparse

from controller.settings import (
    DeviceHealthMode,
    PlaceholderSettings,
    SelfHealingSettings,
)
from leadsman.cli.flags.options import Options
from leadsman.cli.flags.values import (
    image_reference,
    label_key,
    object_name,
    one_of,
    positive_int,
    positive_number,
)
from leadsman.planning.backups.backup_plan import BackupScope, BackupSettings
from leadsman.planning.failover.node_verdict import DetectionRules
from leadsman.planning.moves.plan_run import MovePlanLimits
from leadsman.planning.rebalance_plan import RebalanceSettings
from leadsman.planning.recovery_plan import FAILOVER_OFF, RecoveryBudget
from leadsman.planning.replacement_plan import ReplacementSettings

OFF = "off"


def options(add: Options) -> None:
    backup_options(add)
    failover_options(add)
    replacement_options(add)
    move_plan_options(add)
    rebalance_options(add)


def backup_options(add: Options) -> None:
    backups, placeholders = BackupSettings(), PlaceholderSettings()
    add.switch(
        "backups",
        "give pods with a delay bound a backup node, whose room placeholders hold, and keep them off dead and suspect "
        "nodes; needs --node-health=report and the component self-healing",
    )
    add.flag(
        "backup-scope",
        "largest failure that a bounded pod survives unless it says otherwise: none, node, rack or zone "
        "(default {default})",
        backups.default_scope.value,
        one_of(*(scope.value for scope in BackupScope)),
        metavar="SCOPE",
    )
    add.flag("rack-label", "label of nodes that names their rack (default {default})", backups.rack_label, label_key)
    add.flag(
        "placeholder-image",
        "image of placeholders, which must do nothing (default {default})",
        placeholders.image,
        image_reference,
    )
    add.flag(
        "placeholder-scheduler",
        "scheduler that places placeholders (default {default})",
        placeholders.scheduler,
        object_name,
    )


def failover_options(add: Options) -> None:
    budget = RecoveryBudget()
    add.switch(
        "failover",
        "taint dead nodes and delete their covered pods, so that their owners make new ones on the backups; needs "
        "--backups and the component self-healing",
    )
    add.flag(
        "failover-nodes",
        "nodes that may be failed over within the window, at least (default {default})",
        budget.least_nodes,
        positive_int,
    )
    add.flag(
        "failover-ratio",
        "share of all nodes that may be, if that is more (default {default})",
        budget.nodes_ratio,
        positive_number,
    )
    add.flag(
        "failover-window-seconds", "window of that budget (default {default})", budget.window_seconds, positive_number
    )


def replacement_options(add: Options) -> None:
    replacement = ReplacementSettings()
    add.switch(
        "replacement",
        "move a pod whose delay left its bound, and one that is in the way of a pending pod, where every bound is "
        "kept; needs --backups and the component self-healing",
    )
    add.flag(
        "replacement-hold-seconds",
        "how long a delay must be over its bound, or a pod be pending, before a pod is moved (default {default})",
        replacement.hold_seconds,
        positive_number,
    )
    add.flag(
        "replacements-per-minute",
        "largest number of pods that are moved a minute (default {default})",
        replacement.per_minute,
        positive_int,
    )


def move_plan_options(add: Options) -> None:
    limits = MovePlanLimits()
    add.switch(
        "move-plans",
        "carry out plans of moves that `leadsman plan apply` hands over; needs --backups and the component move-plans",
    )
    add.flag(
        "plan-moves-per-minute",
        "largest number of a plan's moves that begin within a minute (default {default})",
        limits.per_minute,
        positive_int,
    )
    add.flag(
        "plan-max-failures",
        "moves of a plan that fail before it is aborted (default {default})",
        limits.max_failures,
        positive_int,
    )


def rebalance_options(add: Options) -> None:
    rebalance = RebalanceSettings()
    add.switch(
        "rebalance",
        "move pods to nodes that serve them better by more than a move costs; needs --move-plans and the component "
        "rebalance",
    )
    add.flag(
        "rebalance-threshold",
        "points by which the gain of a move must exceed its cost (default {default})",
        rebalance.threshold,
        positive_number,
        metavar="POINTS",
    )
    add.flag(
        "rebalance-max-moves",
        "largest number of moves of one plan (default {default})",
        rebalance.max_moves,
        positive_int,
    )


def settings(args: argparse.Namespace) -> SelfHealingSettings:
    """Returns what self-healing runs with. ValueError when a switch lacks the one that it needs."""
    if args.failover and not args.backups:
        raise ValueError("--failover needs --backups: a pod is only deleted once another node holds its room")
    if args.backups and args.node_health == OFF:
        raise ValueError("--backups needs --node-health=report, which says which nodes are suspect or dead")
    if args.replacement and not args.backups:
        raise ValueError("--replacement needs --backups, whose namespace and PriorityClass its holding pods use")
    if args.move_plans and not args.backups:
        raise ValueError("--move-plans needs --backups, whose namespace and PriorityClass its holding pods use")
    if args.rebalance and not args.move_plans:
        raise ValueError("--rebalance needs --move-plans, which carries its plans out")
    rebalance = RebalanceSettings(threshold=args.rebalance_threshold, max_moves=args.rebalance_max_moves)
    replacement = ReplacementSettings(
        mends=args.replacement, hold_seconds=args.replacement_hold_seconds, per_minute=args.replacements_per_minute
    )
    move_plans = MovePlanLimits(per_minute=args.plan_moves_per_minute, max_failures=args.plan_max_failures)
    budget = RecoveryBudget(args.failover_nodes, args.failover_ratio, args.failover_window_seconds)
    return SelfHealingSettings(
        enabled=args.backups,
        backups=BackupSettings(BackupScope(args.backup_scope), args.rack_label),
        placeholders=PlaceholderSettings(args.placeholder_image, args.placeholder_scheduler),
        budget=budget if args.failover else FAILOVER_OFF,
        replacement=replacement if args.replacement or args.move_plans else None,
        move_plans=move_plans if args.move_plans else None,
        rebalance=rebalance if args.rebalance else None,
    )


def node_health_options(add: Options) -> None:
    add.flag(
        "node-health",
        "off, or report: which nodes are suspect, cut off or dead is shown as the condition LeadsmanUnreachable, in "
        "Events and metrics; needs the component self-healing (default {default})",
        OFF,
        one_of(OFF, "report"),
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


def node_health_rules(args: argparse.Namespace) -> DetectionRules | None:
    """By which nodes are judged; None: they are not."""
    return None if args.node_health == OFF else DetectionRules(call_timeout_seconds=args.agent_call_timeout_seconds)
