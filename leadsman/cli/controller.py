"""`leadsman controller`: label nodes as telemetry policies say, and requeue pods that the extender refused."""

import argparse
import socket
from uuid import uuid4

from controller.node_health import NodeHealthMode, NodeHealthSettings
from controller.placeholder_pod import PlaceholderSettings
from controller.run import ControllerSettings, run
from controller.self_healing import SelfHealingSettings
from leadsman.cli import delay_flags, telemetry_flags
from leadsman.cli.options import (
    POLICY_HELP,
    Options,
    api_access,
    etcd_access,
    existing_file,
    listen_address,
    one_of,
    positive_int,
    positive_number,
    split_host_port,
)
from leadsman.planning.backups.model import BackupScope, BackupSettings
from leadsman.planning.failover.model import DetectionRules
from leadsman.planning.labels.model import LabelLimits
from leadsman.planning.moves.plan_run import MovePlanLimits
from leadsman.planning.rebalance.planner import RebalanceSettings
from leadsman.planning.recovery.model import FAILOVER_OFF, RecoveryBudget
from leadsman.planning.replacement.model import ReplacementSettings
from leadsman.runtime.process import run_until_stopped
from leadsman.sources.telemetry.telemetry_sources import AGENTS_SOURCE, TelemetrySettings

DEFAULT_LIMITS, DEFAULT_RULES = LabelLimits(), DetectionRules()


def options(add: Options) -> None:
    add.switch("dry-run", "show the plan in the log and at /plan, and write nothing")
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
        also=["POD_NAMESPACE"],
        metavar="NAMESPACE",
    )
    acting.flag(
        "lease-name",
        "name of the Lease, one a cluster (default leadsman-controller)",
        "leadsman-controller",
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
    self_healing_options(add.group("self-healing (docs/self-healing.md)"))
    delay_flags.options(add.group("delays besides the agents' own, as for the extender (docs/delays.md)"))
    telemetry_flags.options(add.group("telemetry policies; without --telemetry on the agents' metrics"))
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


def self_healing_options(add: Options) -> None:
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
        "nodes; needs --node-health=report and the component backups",
    )
    add.flag(
        "backup-scope",
        "largest failure that a bounded pod survives unless it says otherwise: none, node, rack or zone "
        f"(default {backups.default_scope})",
        backups.default_scope.value,
        one_of(*(scope.value for scope in BackupScope)),
        metavar="SCOPE",
    )
    add.flag(
        "rack-label",
        f"label of nodes that names their rack (default {backups.rack_label})",
        backups.rack_label,
        metavar="LABEL",
    )
    add.flag(
        "placeholder-image",
        f"image of placeholders, which must do nothing (default {placeholders.image})",
        placeholders.image,
        metavar="IMAGE",
    )
    add.flag(
        "placeholder-scheduler",
        "scheduler that places placeholders (default default-scheduler)",
        placeholders.scheduler,
        metavar="NAME",
    )


def failover_options(add: Options) -> None:
    budget = RecoveryBudget()
    add.switch(
        "failover",
        "taint dead nodes and delete their covered pods, so that their owners make new ones on the backups; needs "
        "--backups and the component failover",
    )
    add.flag(
        "failover-nodes",
        f"nodes that may be failed over within the window, at least (default {budget.least_nodes})",
        budget.least_nodes,
        positive_int,
        metavar="N",
    )
    add.flag(
        "failover-ratio",
        f"share of all nodes that may be, if that is more (default {budget.nodes_ratio:g})",
        budget.nodes_ratio,
        positive_number,
        metavar="RATIO",
    )
    add.flag(
        "failover-window-seconds",
        f"window of that budget (default {budget.window_seconds:g})",
        budget.window_seconds,
        positive_number,
        metavar="S",
    )


def replacement_options(add: Options) -> None:
    replacement = ReplacementSettings()
    add.switch(
        "replacement",
        "move a pod whose delay left its bound, and one that is in the way of a pending pod, where every bound is "
        "kept; needs --backups and the component replacement",
    )
    add.flag(
        "replacement-hold-seconds",
        "how long a delay must be over its bound, or a pod be pending, before a pod is moved "
        f"(default {replacement.hold_seconds:g})",
        replacement.hold_seconds,
        positive_number,
        metavar="S",
    )
    add.flag(
        "replacements-per-minute",
        f"largest number of pods that are moved a minute (default {replacement.per_minute})",
        replacement.per_minute,
        positive_int,
        metavar="N",
    )


def move_plan_options(add: Options) -> None:
    limits = MovePlanLimits()
    add.switch(
        "move-plans",
        "carry out plans of moves that `leadsman plan apply` hands over; needs --backups and the component move-plans",
    )
    add.flag(
        "plan-moves-per-minute",
        f"largest number of a plan's moves that begin within a minute (default {limits.per_minute})",
        limits.per_minute,
        positive_int,
        metavar="N",
    )
    add.flag(
        "plan-max-failures",
        f"moves of a plan that fail before it is aborted (default {limits.max_failures})",
        limits.max_failures,
        positive_int,
        metavar="N",
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
        f"points by which the gain of a move must exceed its cost (default {rebalance.threshold:g})",
        rebalance.threshold,
        positive_number,
        metavar="POINTS",
    )
    add.flag(
        "rebalance-max-moves",
        f"largest number of moves of one plan (default {rebalance.max_moves})",
        rebalance.max_moves,
        positive_int,
        metavar="N",
    )


def self_healing_settings(args: argparse.Namespace) -> SelfHealingSettings:
    """What self-healing runs with. ValueError when a switch lacks the one that it needs."""
    if args.failover and not args.backups:
        raise ValueError("--failover needs --backups: a pod is only deleted once another node holds its room")
    if args.backups and args.node_health == NodeHealthMode.OFF.value:
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
        namespace=args.lease_namespace,
    )


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
        self_healing=self_healing_settings(args),
        node_health=NodeHealthSettings(
            NodeHealthMode(args.node_health), DetectionRules(call_timeout_seconds=args.agent_call_timeout_seconds)
        ),
    )


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
