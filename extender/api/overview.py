"""Makes the overview of the cluster: its checks, and counts of nodes, pairs and decisions."""

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
from aiohttp import web
from msgspec import Struct

from extender.api.history import NodeShift
from extender.api.live import ApiSources, CertificateDays, DecisionRates, LiveState, WaitingPods
from extender.api.nodes import STATUS
from extender.api.requests import Route, iso
from extender.api.view import ClusterView
from extender.metrics import state_age_seconds
from leadsman.runtime.version import VERSION
from leadsman.state.snapshot import Freshness

ERROR, WARNING = "error", "warning"
SOON_DAYS_LEFT = 14

SCHEDULER_ASKS = "kube-scheduler asks"
"""Names the check that one replica cannot make for all: kube-scheduler keeps asking the one that it is connected to."""

WHAT_TO_DO = {
    "policy file": "correct the file; the last good policy stays in use meanwhile",
    "certificates": "make the files again with leadsman certs; the previous ones stay in use meanwhile",
}
_READ_LOG = "read the extender's log"
_LOOK_AT_REPORTS = "leadsman delay NODE PEER shows what each end measures; look at the node's network and agent"


class Check(Struct, frozen=True):
    """The result of one health check. severity: of its failure. what_to_do: "" when it is good."""

    name: str
    ok: bool
    severity: str
    text: str
    what_to_do: str = ""


class HealthChecks(Struct, frozen=True):
    """Lists all health checks, the failing ones first."""

    checks: Sequence[Check]


class NodeCounts(Struct, frozen=True):
    """Counts nodes by how much their data are worth. unknown: without a heartbeat."""

    fresh: int
    provisional: int
    stale: int
    unknown: int


class PairCounts(Struct, frozen=True):
    """Counts pairs of nodes. lost: directions in which every probe got no reply. estimated: not measured."""

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
    """Says what the cards above every tab of the page show, and more about this process.

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
    """Returns all checks, the failing ones first; whatever the page shows in red fails one of them."""
    checks = [*_of_cluster(live, view), *_of_process(live.sources, view), *_of_sources(live.sources)]
    return sorted(checks, key=lambda check: check.ok)


def _check(name: str, severity: str, good: str, problem: str, what_to_do: str) -> Check:
    """Makes the result of one check. problem: "": it is good."""
    return Check(name, not problem, severity, problem or good, what_to_do if problem else "")


def _nodes(number: int) -> str:
    return f"{number:,} node{'s' * (number != 1)}"


def _of_cluster(live: LiveState, view: ClusterView) -> Iterator[Check]:
    counts = Counter(state.freshness(view.inputs.now) for state in view.snapshot.nodes.values())
    fresh, stale = counts[Freshness.FRESH], counts[Freshness.STALE] + counts[Freshness.SILENT]
    yield _check(
        "agents report",
        ERROR,
        f"fresh data of {_nodes(fresh)}",
        "" if fresh else "no node has fresh data: every delay is unknown",
        "see that agents run and that they and this process reach etcd",
    )
    yield _check(
        "no agent stopped",
        WARNING,
        "every node in the state reports",
        f"{_nodes(stale)} stopped reporting" if stale else "",
        "list the nodes with status stale, and look at the agent's pod on each",
    )
    dead = view.dead_links
    yield _check(
        "every link answers",
        ERROR,
        "every node that probes another gets replies",
        dead[0].text + (f", and {len(dead) - 1:,} more" if len(dead) > 1 else "") if dead else "",
        "the page's Delays lists them; look at the network between the two nodes, and at what drops ICMP",
    )
    waiting = live.waiting()
    seconds = waiting.longest_seconds or 0
    waits_for = f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
    yield _check(
        "pods with bounds find nodes",
        WARNING,
        "none waits",
        f"{waiting.bounded_pods:,} waiting, {waiting.pod} for {waits_for}" if waiting.pod else "",
        f"leadsman explain {waiting.pod} says what would help",
    )
    yield _check(
        "no node moved away",
        WARNING,
        "no node's round trips to all others grew within the hour",
        next((shift.text for shift in live.history.shifts if shift.shift_ms > 0), ""),
        "look at the node's link and its load",
    )


def _of_process(sources: ApiSources, view: ClusterView) -> Iterator[Check]:
    ending = [each for each in sources.certificates if each.days_left is not None and each.days_left < SOON_DAYS_LEFT]
    yield _check(
        "certificates last",
        WARNING,
        f"none ends within {SOON_DAYS_LEFT} days",
        ", ".join(f"{each.name} ends in {each.days_left:.0f} days" for each in ending),
        "make the files again with leadsman certs renew",
    )
    unread = view.snapshot.problems
    yield _check(
        "records are readable",
        WARNING,
        "every record in etcd can be read",
        f"{len(unread)} cannot; {': '.join(next(iter(unread.items())))}" if unread else "",
        "run agents and extender of one version; leadsman nodes -o wide names each record",
    )
    yield _check(
        "delays are estimated",
        WARNING,
        "pairs that nobody measured have an estimate",
        "" if view.estimates.fitted else "there are no estimates of unmeasured pairs",
        "wait a minute after the start; with --no-estimates only measured pairs count",
    )
    decisions, overdue = len(sources.journal), sources.workers.overdue
    yield _check(
        SCHEDULER_ASKS,
        WARNING,
        f"{decisions} decisions are kept",
        "" if decisions else "kube-scheduler has not asked this replica",
        "run leadsman configure-scheduler; another replica may have been asked instead",
    )
    yield _check(
        "decisions end in time",
        ERROR,
        "no worker thread is past its deadline",
        f"{overdue} worker threads are past it" if overdue else "",
        "look for a slow plugin in the extender's log",
    )


def _of_sources(sources: ApiSources) -> Iterator[Check]:
    """Yields what plugins do, which nodes others contradict, and which inputs cannot be read."""
    for plugin in sources.plugins():
        text = f"it is {plugin.state}" + (f": {plugin.problem}" if plugin.problem else "")
        what_to_do = "leadsman plugins check runs it alone; it is asked again in a minute"
        yield _check(f"plugin {plugin.name}", WARNING, text, text if plugin.state == "off" else "", what_to_do)
    for node, why in sorted(sources.inputs.delays.contradicted.items()):
        yield _check(f"reports of {node}", WARNING, "", f"{node}: {why}", _LOOK_AT_REPORTS)
    for name, text in sources.problems.items():
        yield _check(name, ERROR, "", f"{name}: {text}", WHAT_TO_DO.get(name, _READ_LOG))


def _node_counts(view: ClusterView) -> NodeCounts:
    counts = Counter(STATUS[state.freshness(view.inputs.now)] for state in view.snapshot.nodes.values())
    return NodeCounts(**{status: counts[status] for status in STATUS.values()})


def _pair_counts(view: ClusterView) -> PairCounts:
    """Counts unordered pairs; lost: directions. A pair that either end measured is measured."""
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
            decisions=live.rates(),
            waiting=live.waiting(),
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
