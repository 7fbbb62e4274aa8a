"""`leadsman plugins list | check`: which plugins are installed, and whether one can be used.

`check` runs the plugin as the extender does, in a process of its own, on made-up nodes. Exit code: 0: it answers;
1: it does not, with the reason.
"""

import argparse
import time
from importlib.metadata import entry_points

import msgspec

from extender.plugins.channel import WorkerCommand
from extender.plugins.host import RemoteFilter, RemoteScore
from extender.plugins.remote_plugin import RemotePlugin
from leadsman.cli.options import Options
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import CandidateNodes, PodInfo
from leadsman.decision.plugins import FILTERS, SCORES
from leadsman.decision.policy import FilterPluginPolicy, Policy, ScorePluginPolicy
from leadsman.plugin import FILTERS_GROUP, REWARDS_GROUP, SCORES_GROUP
from leadsman.runtime import text_table
from leadsman.state import metric_names
from leadsman.state.records import Hardware, Heartbeat, Identity
from leadsman.state.snapshot import NodeState, Snapshot

EXIT_GOOD, EXIT_FAILS = 0, 1

GROUPS = (SCORES_GROUP, FILTERS_GROUP, REWARDS_GROUP)

NODES = CandidateNodes(f"node-{number}" for number in range(10))


def options(add: Options) -> None:
    assert isinstance(add.parser, argparse.ArgumentParser)
    commands = add.parser.add_subparsers(dest="plugins_command", metavar="COMMAND", required=True)
    commands.add_parser("list", help="our own scores and filters, and the installed plugins of each group")
    check = commands.add_parser("check", help="run an installed score or filter as the extender does")
    check.add_argument("name", metavar="NAME", help="of its entry point")


def main(args: argparse.Namespace) -> int:
    """ValueError when there is no such plugin."""
    if args.plugins_command == "check":
        return _check(args.name)
    ours = [["leadsman", group, each.name] for group, known in _OURS for each in known]
    installed = [
        [point.dist.name if point.dist else "?", group, point.name]
        for group in GROUPS
        for point in entry_points(group=group)
    ]
    print("\n".join(text_table.align_columns([["PACKAGE", "GROUP", "NAME"], *ours, *installed])))
    return EXIT_GOOD


_OURS = ((SCORES_GROUP, SCORES), (FILTERS_GROUP, FILTERS))


def _check(name: str) -> int:
    groups = [group for group in (SCORES_GROUP, FILTERS_GROUP) if entry_points(group=group, name=name)]
    if not groups:
        raise ValueError(f"no installed score or filter has the name {name!r}; `leadsman plugins list` shows them")
    problems = [problem for group in groups if (problem := _problem(group, name))]
    print("\n".join(problems) or f"{name} answers")
    return EXIT_FAILS if problems else EXIT_GOOD


def _problem(group: str, name: str) -> str:
    """Why the plugin gives no answer; "" when it does."""
    settings = FilterPluginPolicy(name) if group == FILTERS_GROUP else ScorePluginPolicy(name)
    command = WorkerCommand(group, name, settings.memory_mib << 20)
    plugin = RemotePlugin(command, settings.deadline_ms / 1000)
    inputs = _made_up_inputs()
    plugin.start()
    try:
        plugin.warm_up(inputs)
        inputs = msgspec.structs.replace(inputs, now=time.monotonic())
        pod = PodInfo("default", "web")
        pending = plugin.ask(pod, NODES, inputs)
        if isinstance(settings, ScorePluginPolicy):
            RemoteScore(pending, settings).score(pod, NODES, inputs)
        else:
            RemoteFilter(pending, settings).refusals(pod, NODES, inputs)
    finally:
        plugin.stop()
    return f"{name} ({group}): {plugin.health.problem}" if plugin.health.problem else ""


def _made_up_inputs() -> DecisionInputs:
    """Ten fresh nodes, of which nine report hardware."""
    names = [value for key, value in vars(metric_names).items() if key.isupper()]
    metrics = Hardware(dict.fromkeys(names, 0.5))
    now = time.monotonic()
    states = {
        node: NodeState(
            Identity("agent", 1, "10.0.0.1"), Heartbeat(1, 1, 60.0), None, metrics if node != NODES[0] else None, now
        )
        for node in NODES
    }
    return DecisionInputs(Snapshot(states), Policy(), now)
