"""The checks of what this process needs; a failing one says what to do."""

from collections import Counter
from collections.abc import Iterator, Sequence

from msgspec import Struct

from extender.api.cluster_view import ClusterView
from extender.api.contract.overview import HealthCheckResult, HealthChecks, WaitingPods
from extender.api.history import NodeShift
from extender.api.moments import time_of_day
from extender.api.shifts import shift_text
from extender.api.sources import ApiSources
from extender.dead_links import DeadLink
from leadsman.state.snapshot import Freshness

ERROR, WARNING = "error", "warning"
SOON_DAYS_LEFT = 14

WHAT_TO_DO = {
    "policy file": "run leadsman evaluate --policy on the file; the last good policy stays in use meanwhile",
    "certificates": "make the files again with leadsman certs; the previous ones stay in use meanwhile",
}
_READ_LOG = "read the extender's log"
_LOOK_AT_REPORTS = "leadsman delay NODE PEER shows what each end measures; look at the node's network and agent"


class Check(Struct, frozen=True):
    """severity: of its failure. what_to_do: "" when it is good."""

    name: str
    ok: bool
    severity: str
    text: str
    what_to_do: str = ""


def health(sources: ApiSources, view: ClusterView, waiting: WaitingPods, shifts: Sequence[NodeShift]) -> HealthChecks:
    """The failing ones first."""
    checks = sorted(run_checks(sources, view, waiting, shifts), key=lambda check: check.ok)
    return HealthChecks([HealthCheckResult(each.name, each.ok, each.text, each.what_to_do) for each in checks])


def run_checks(
    sources: ApiSources, view: ClusterView, waiting: WaitingPods, shifts: Sequence[NodeShift]
) -> Sequence[Check]:
    """All checks. What the page shows in red fails one of them, and what fails none is not red."""
    counts = Counter(state.freshness(view.inputs.now) for state in view.snapshot.nodes.values())
    return [
        _agents_report(counts),
        _no_agent_stopped(counts),
        _links_answer(view.dead_links),
        _pods_find_nodes(waiting),
        _nodes_stand_still(shifts),
        _certificates_last(sources),
        _records_readable(view),
        _estimates_fitted(view),
        _decisions_asked(sources),
        _threads_free(sources),
        *_plugins_answer(sources),
        *_reports_agree(sources),
        *(
            Check(name, False, ERROR, f"{name}: {text}", WHAT_TO_DO.get(name, _READ_LOG))
            for name, text in sources.problems.items()
        ),
    ]


def _agents_report(counts: Counter[Freshness]) -> Check:
    fresh = counts[Freshness.FRESH]
    if fresh:
        return Check("agents report", True, ERROR, f"{fresh} nodes have fresh data")
    what_to_do = "see that agents run and that they and this process reach etcd"
    return Check("agents report", False, ERROR, "no node has fresh data: every delay is unknown", what_to_do)


def _no_agent_stopped(counts: Counter[Freshness]) -> Check:
    stale = counts[Freshness.STALE] + counts[Freshness.SILENT]
    if not stale:
        return Check("no agent stopped", True, WARNING, "every agent that reported still does")
    what_to_do = "list the nodes with status stale, and look at the agent's pod on each"
    return Check("no agent stopped", False, WARNING, f"{stale} nodes stopped reporting", what_to_do)


def _links_answer(dead: Sequence[DeadLink]) -> Check:
    if not dead:
        return Check("every link answers", True, ERROR, "every node that probes another gets replies")
    more = f", and {len(dead) - 1} more links" if len(dead) > 1 else ""
    what_to_do = "the page's Delays lists them; look at the network between the two nodes, and at what drops ICMP"
    return Check("every link answers", False, ERROR, dead[0].text + more, what_to_do)


def _pods_find_nodes(waiting: WaitingPods) -> Check:
    if not waiting.bounded_pods:
        return Check("pods with bounds find nodes", True, WARNING, "none waits")
    text = f"{waiting.bounded_pods} find none, {waiting.pod} for {waiting.longest_seconds:.0f} s"
    what_to_do = f"leadsman explain {waiting.pod} says what would help"
    return Check("pods with bounds find nodes", False, WARNING, text, what_to_do)


def _nodes_stand_still(shifts: Sequence[NodeShift]) -> Check:
    worst = next((shift for shift in shifts if shift.shift_ms > 0), None)
    if worst is None:
        return Check("no node moved away", True, WARNING, "no node's round trips to all others grew within the hour")
    text = shift_text(worst.node, worst.shift_ms, time_of_day(worst.since))
    return Check("no node moved away", False, WARNING, text, "look at the node's link and its load")


def _certificates_last(sources: ApiSources) -> Check:
    ending = [each for each in sources.certificates if each.days_left is not None and each.days_left < SOON_DAYS_LEFT]
    if not ending:
        return Check("certificates last", True, WARNING, f"none ends within {SOON_DAYS_LEFT} days")
    text = ", ".join(f"{each.name} ends in {each.days_left:.0f} days" for each in ending)
    return Check("certificates last", False, WARNING, text, "make the files again with leadsman certs renew")


def _records_readable(view: ClusterView) -> Check:
    problems = view.snapshot.problems
    if not problems:
        return Check("records are readable", True, WARNING, "every record in etcd can be read")
    key, problem = next(iter(problems.items()))
    what_to_do = "run agents and extender of one version; leadsman nodes -o wide names each record"
    return Check("records are readable", False, WARNING, f"{len(problems)} cannot; {key}: {problem}", what_to_do)


def _estimates_fitted(view: ClusterView) -> Check:
    if view.estimates.fitted is not None:
        return Check("delays are estimated", True, WARNING, "pairs that nobody measured have an estimate")
    what_to_do = "wait a minute after the start; with --no-estimates only measured pairs count"
    return Check("delays are estimated", False, WARNING, "there are no estimates of unmeasured pairs", what_to_do)


def _decisions_asked(sources: ApiSources) -> Check:
    if len(sources.journal):
        return Check("kube-scheduler asks", True, WARNING, f"{len(sources.journal)} decisions are kept")
    what_to_do = "run leadsman configure-scheduler; another replica may have been asked instead"
    return Check("kube-scheduler asks", False, WARNING, "kube-scheduler has not asked this replica", what_to_do)


def _plugins_answer(sources: ApiSources) -> Iterator[Check]:
    for plugin in sources.plugins():
        is_off, name = plugin.state == "off", f"plugin {plugin.name}"
        text = f"it is {plugin.state}" + (f": {plugin.problem}" if plugin.problem else "")
        what_to_do = "leadsman plugins check runs it alone; it is asked again in a minute" if is_off else ""
        yield Check(name, not is_off, WARNING, text, what_to_do)


def _reports_agree(sources: ApiSources) -> Iterator[Check]:
    """A failing check for each node that others contradict."""
    for node, why in sorted(sources.inputs.delays.contradicted.items()):
        yield Check(f"reports of {node}", False, WARNING, f"{node}: {why}", _LOOK_AT_REPORTS)


def _threads_free(sources: ApiSources) -> Check:
    overdue = sources.workers.overdue
    if not overdue:
        return Check("decisions end in time", True, ERROR, "no worker thread is past its deadline")
    what_to_do = "look for a slow plugin in the extender's log"
    return Check("decisions end in time", False, ERROR, f"{overdue} worker threads are past it", what_to_do)
