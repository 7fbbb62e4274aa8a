"""`leadsman plugins list | check`: which plugins are installed, and whether one can be used.

`check` runs a score or filter as the extender does, in a process of its own, on made-up nodes; a metric as the agent
does, on this machine; a reward on a made-up pod. Exit code: 0: it answers; 1: it does not, with the reason.
"""

import argparse
import asyncio
import time
from collections.abc import Callable, Iterator, Mapping

from agent.hardware.metric_plugins import metric_plugins
from agent.hardware.monitor import DEADLINE_SECONDS, HardwareMonitor, default_collectors
from agent.hardware.reading import Absent, Failed, Measured, Overdue
from agent.pods.quality_observer import reward_plugins
from extender.plugins.host import RemoteFilter, RemoteScore
from extender.plugins.process import FAILURES_UNTIL_OFF, Plugin
from leadsman.cli.flags.options import Options
from leadsman.decision.decide import FILTERS, SCORES
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import CandidateNodes, PodInfo
from leadsman.decision.policy import FilterPluginPolicy, Policy, ScorePluginPolicy
from leadsman.kube.objects import ObjectMeta, Pod
from leadsman.plugin import FILTERS_GROUP, METRICS_GROUP, REWARDS_GROUP, SCORES_GROUP, HostRoots
from leadsman.plugin_loading import installed_plugins
from leadsman.runtime import text_table
from leadsman.state import metric_names
from leadsman.state.records import Hardware, Heartbeat, Identity
from leadsman.state.snapshot import NodeState, Snapshot

EXIT_GOOD, EXIT_FAILS = 0, 1

NODES = CandidateNodes(f"node-{number}" for number in range(10))


def options(add: Options) -> None:
    assert isinstance(add.parser, argparse.ArgumentParser)
    commands = add.parser.add_subparsers(dest="plugins_command", metavar="COMMAND", required=True)
    commands.add_parser("list", help="our own plugins, and the installed ones, of each group")
    check = commands.add_parser("check", help="run an installed plugin as the extender or agent does")
    check.add_argument("name", metavar="NAME", help="of its entry point")


def main(args: argparse.Namespace) -> int:
    """Runs the command. Raises ValueError when there is no such plugin."""
    if args.plugins_command == "check":
        return _check(args.name)
    ours = [["leadsman", group, name] for group, names in _OURS for name in names]
    installed = [
        [point.dist.name if point.dist else "?", group, point.name]
        for group in _PROBLEM_IN_GROUP
        for point in installed_plugins(group)
    ]
    print("\n".join(text_table.align_columns([["PACKAGE", "GROUP", "NAME"], *ours, *installed])))
    return EXIT_GOOD


def _check(name: str) -> int:
    groups = [group for group in _PROBLEM_IN_GROUP if name in {point.name for point in installed_plugins(group)}]
    if not groups:
        raise ValueError(f"no installed plugin has the name {name!r}; `leadsman plugins list` shows them")
    problems = {group: _PROBLEM_IN_GROUP[group](group, name) for group in groups}
    failed = [f"{name} ({group}): {problem}" for group, problem in problems.items() if problem]
    print("\n".join(failed) or f"{name} answers")
    return EXIT_FAILS if failed else EXIT_GOOD


def _problem_in_extender(group: str, name: str) -> str:
    """Says why the extender would switch the score or filter off; "" when it would not."""
    is_filter = group == FILTERS_GROUP
    plugin = Plugin(group, FilterPluginPolicy(name) if is_filter else ScorePluginPolicy(name))
    pod = PodInfo("default", "web")
    try:
        for _ in range(FAILURES_UNTIL_OFF):
            inputs = _made_up_inputs()
            if plugin.wants_start:
                plugin.start(inputs).result()
            if is_filter:
                RemoteFilter(plugin).refusals(pod, NODES, inputs)
            else:
                RemoteScore(plugin).score(pod, NODES, inputs)
            if not plugin.problem:
                break
    finally:
        plugin.stop()
    return plugin.problem


def _problem_of_metric(group: str, name: str) -> str:
    """Says why this machine has no metrics of the plugin; "", and they are printed, when it has."""
    monitor = HardwareMonitor(HostRoots(), collectors=metric_plugins([name]))
    ((_, outcome),) = asyncio.run(monitor.run_round()).outcomes.items()
    match outcome:
        case Measured():
            print("\n".join(_sample_lines(outcome)))
            return "; ".join(outcome.faults)
        case Absent():
            print(f"{name} has nothing to measure on this machine: {outcome.reason}")
            return ""
        case Failed():
            return outcome.error
        case Overdue():
            return f"it took more than {DEADLINE_SECONDS:g} s"


def _sample_lines(outcome: Measured) -> Iterator[str]:
    for sample in outcome.samples:
        labels = ",".join(f'{name}="{value}"' for name, value in zip(sample.family.labels, sample.labels, strict=True))
        yield f"leadsman_{sample.family.name}{f'{{{labels}}}' if labels else ''} {sample.value:g}"


def _problem_of_reward(group: str, name: str) -> str:
    """Says why the reward cannot be asked about a pod that has nothing special; "" when it can."""
    plugins = reward_plugins([name])
    if not plugins:
        return "cannot be loaded; the line above says why"
    pod = Pod(ObjectMeta(name="web", namespace="default", uid="made-up"))
    costs = asyncio.run(plugins[0].observe(pod))
    if costs:
        print("\n".join(f"{quality} {cost:g}" for quality, cost in sorted(costs.items())))
    return plugins[0].problem.text


_OURS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (SCORES_GROUP, tuple(each.name for each in SCORES)),
    (FILTERS_GROUP, tuple(each.name for each in FILTERS)),
    (METRICS_GROUP, tuple(default_collectors())),
)

_PROBLEM_IN_GROUP: Mapping[str, Callable[[str, str], str]] = {
    SCORES_GROUP: _problem_in_extender,
    FILTERS_GROUP: _problem_in_extender,
    METRICS_GROUP: _problem_of_metric,
    REWARDS_GROUP: _problem_of_reward,
}


def _made_up_inputs() -> DecisionInputs:
    """Makes up inputs with ten fresh nodes, of which nine report hardware."""
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
