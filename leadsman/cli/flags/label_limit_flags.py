"""Flags of LabelLimits, which documents each: how fast and how far the controller changes nodes' labels."""

import argparse

from leadsman.cli.flags.options import Options
from leadsman.cli.flags.values import positive_int, positive_number
from leadsman.planning.labels.model import LabelLimits


def options(add: Options) -> None:
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


def settings(args: argparse.Namespace) -> LabelLimits:
    return LabelLimits(
        args.max_marked_ratio,
        args.marks_per_second,
        args.hold_seconds,
        args.recovery_ratio,
        args.max_flips_per_hour,
        args.min_fresh_ratio,
        args.adopt,
    )
