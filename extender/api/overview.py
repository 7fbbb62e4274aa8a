"""The overview, made of what the other parts know."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from aiohttp import web
from msgspec import Struct

from extender.api.history import NodeShift
from extender.api.live import ApiSources, CertificateDays, DecisionRates, LiveState, WaitingPods
from extender.api.nodes import STATUS
from extender.api.requests import Route, iso
from extender.api.view import ClusterView
from extender.dead_links import DeadLink
from extender.metrics import state_age_seconds
from leadsman.runtime.version import VERSION
from leadsman.state.snapshot import Freshness

ERROR, WARNING = "error", "warning"
SOON_DAYS_LEFT = 14

WHAT_TO_DO = {
    "policy file": "correct the file; the last good policy stays in use meanwhile",
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


class HealthChecks(Struct, frozen=True):
    """All checks, the failing ones first."""

    checks: Sequence[Check]


class NodeCounts(Struct, frozen=True):
    """Nodes by what their data are worth. unknown: without a heartbeat."""

    fresh: int
    provisional: int
    stale: int
    unknown: int


class PairCounts(Struct, frozen=True):
    """Pairs of nodes, and links that are lost: directions of which every probe got no reply. estimated: not measured,
    with an estimate."""

    measured: int
    estimated: int
    lost: int


class WorstChange(Struct, frozen=True):
    """The node whose distance to all others changed most within an hour."""

    node: str
    change_ms: float
    since: str
    text: str


class Overview(Struct, frozen=True):
    """What the cards above everything show, and more of this process.

    cluster, revision: of the state in etcd; "": none was read. newest_report_seconds: since any node's last report.
    history_since: where the delay history begins; it is lost at each start.
    """

    at: str
    replica: str
    version: str
    cluster: str
    revision: int
    newest_report_seconds: float | None
    history_since: str
    nodes: NodeCounts
    pairs: PairCounts
    worst_change: WorstChange | None
    decisions: DecisionRates
    waiting: WaitingPods
    certificates: Sequence[CertificateDays]
    problems: Sequence[Check]


def run_checks(live: LiveState, view: ClusterView) -> list[Check]:
    """Returns all checks, the failing ones first. What the page shows in red fails one of them."""
    return sorted(_checks(live, view), key=lambda check: check.ok)


def _checks(live: LiveState, view: ClusterView) -> Iterable[Check]:
    sources = live.sources
    counts = Counter(state.freshness(view.inputs.now) for state in view.snapshot.nodes.values())
    return [
        _agents_report(counts),
        _no_agent_stopped(counts),
        _links_answer(view.dead_links),
        _pods_find_nodes(live.decisions.waiting()),
        _nodes_stand_still(live.history.shifts),
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
    return Check("no node moved away", False, WARNING, worst.text, "look at the node's link and its load")


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


def _node_counts(view: ClusterView) -> NodeCounts:
    counts = Counter(STATUS[state.freshness(view.inputs.now)] for state in view.snapshot.nodes.values())
    return NodeCounts(**{status: counts[status] for status in STATUS.values()})


def _pair_counts(view: ClusterView) -> PairCounts:
    """Unordered pairs; lost: directions. A pair that either end measured is measured."""
    table = view.table
    low, high = np.minimum(table.source, table.target), np.maximum(table.source, table.target)
    pairs = low.astype(np.int64) * len(table.names) + high
    measured = np.unique(pairs[~table.is_lost])
    return PairCounts(len(measured), max(0, view.estimates.pairs - len(measured)), len(view.dead_links))


def _worst_change(shifts: Sequence[NodeShift]) -> WorstChange | None:
    if not shifts:
        return None
    worst = shifts[0]
    return WorstChange(worst.node, round(worst.shift_ms, 3), iso(worst.since), worst.text)


async def overview(live: LiveState, _: web.Request) -> Overview:
    view = await live.view()

    def make() -> Overview:
        sources = live.sources
        return Overview(
            at=iso(view.at),
            replica=sources.replica,
            version=VERSION,
            cluster=view.snapshot.cluster_id,
            revision=view.snapshot.revision,
            newest_report_seconds=state_age_seconds(view.snapshot, view.inputs.now),
            history_since=iso(live.history.since),
            nodes=_node_counts(view),
            pairs=_pair_counts(view),
            worst_change=_worst_change(live.history.shifts),
            decisions=live.decisions.rates(),
            waiting=live.decisions.waiting(),
            certificates=sources.certificates,
            problems=[check for check in run_checks(live, view) if not check.ok],
        )

    return await live.on_worker(make)


async def health(live: LiveState, _: web.Request) -> HealthChecks:
    return HealthChecks(run_checks(live, await live.view()))


ROUTES = (
    Route("/overview", overview, Overview, "What the cards above everything show."),
    Route("/health", health, HealthChecks, "Checks of this process, the failing ones first."),
)
