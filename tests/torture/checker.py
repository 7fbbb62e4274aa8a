"""Says from the log of a run which promises were broken. Pure: observations in, violations out.

G1 staleness · G3 answers · G5 order, and nothing invented · G6 recovery · G7 actuation and foreign labels · moves and
their budgets · each crash once in rewards · no card given twice · G8 scrapes · memory, and processes that ended. G2
(pods bind without us) is kube-scheduler's own; G9 (clocks) is all of them while a clock steps. G4 (what one node can
do) is G3 in the rows that lie: an answer stays what the network makes it.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import TypeVar

from msgspec import Struct

from tests.torture import log
from tests.torture.pushes import Pushes
from tests.torture.shape import CARDS_A_NODE, CLUSTER_NODES, FOREIGN_LABELS, GUARDED_WORKLOAD, MOVE_NODES

STALE_SECONDS = 15.0
DELIVERY_SECONDS = 2.0
"""From etcd to an extender and to us, on a busy machine; an extender that was frozen gets what waited for it later."""

FRESH_AGE_SECONDS = 8.0
"""Without faults a report comes each 5 s ± 10 %, and takes a call's time; the page is read each half second."""

LATE_SECONDS = 0.5
"""kube-scheduler's httpTimeout, as docs/deploying.md sets it."""

HELD_RATIO = 0.95
HANG_SECONDS = 5.0
SCRAPE_SECONDS = 2.0
MARK_GAP_SECONDS, HOLD_SECONDS, MAX_FLIPS, HOUR_SECONDS, MIN_FRESH_RATIO = 10.0, 60.0, 6, 3600.0, 0.5
MAX_MARKED = max(1, len((*CLUSTER_NODES, *MOVE_NODES)) // 10)
"""`--max-marked-ratio` of all nodes."""

CLOCK_SECONDS = 1.0
"""Between two processes' looks at the same moment."""

MOVES_A_MINUTE, MOVE_SPAN_SECONDS = 6, 40.0
"""`--plan-moves-per-minute`; a fault may bring the beginnings of two minutes so near to each other."""

STEER_SECONDS = 60.0
"""For so long an evicted pod's owner is kept from the node that the pod left."""

MARK = ("hot", "violating")


class Violation(Struct, frozen=True):
    """A promise that was broken, when, and how. row: that was under way; "" for none."""

    promise: str
    at: float
    row: str
    text: str


def check(observations: Iterable[log.Observation]) -> list[Violation]:
    """All violations, in the order of time."""
    run = RunLog(observations)
    broken = [
        Violation(promise, at, run.row_at(at), text)
        for promise, examine in PROMISES.items()
        for at, text in examine(run)
    ]
    return sorted(broken, key=attrgetter("at"))


Kind = TypeVar("Kind", bound=log.Observation)


class RunLog:
    """The observations by kind, in the order of time."""

    def __init__(self, observations: Iterable[log.Observation]) -> None:
        self._by_kind = defaultdict[type, list](list)
        for entry in sorted(observations, key=attrgetter("at")):
            self._by_kind[type(entry)].append(entry)
        self.pushes = Pushes(self.of(log.Pushed))

    def of(self, kind: type[Kind]) -> Sequence[Kind]:
        return self._by_kind[kind]

    def row_at(self, at: float) -> str:
        return " + ".join(row.row for row in self.of(log.Injected) if row.at <= at <= row.until)

    def is_down(self, process: str, since: float, until: float) -> bool:
        """Whether the run held the process down at some time between, or just before: it must start, or wake."""
        return any(
            down.process == process and down.at <= until and since <= down.until + CLOCK_SECONDS
            for down in self.of(log.Down)
        )

    def stalled(self, since: float, until: float) -> bool:
        """Whether the run itself stood still meanwhile, so that it could not tell how long others took."""
        return any(stall.at <= until and since <= stall.until for stall in self.of(log.Stalled))

    def ended(self, process: str, at: float) -> bool:
        """Whether it ended by itself about then, which is a violation of its own."""
        return any(end.process == process and abs(end.at - at) < HANG_SECONDS for end in self.of(log.Ended))

    def is_quiet(self, at: float) -> bool:
        """Whether no row is under way, and all was well before."""
        return not self.row_at(at) and any(row.quiet_since <= at < row.at for row in self.of(log.Injected))

    def has_been_quiet(self, since: float, at: float) -> bool:
        """Whether no row, however short, was under way between."""
        return (
            self.is_quiet(since)
            and self.is_quiet(at)
            and not any(since <= row.at <= at for row in self.of(log.Injected))
        )


Examine = Callable[[RunLog], Iterator[tuple[float, str]]]


def staleness(run: RunLog) -> Iterator[tuple[float, str]]:
    """No decision uses a value that was last seen to change more than 15 s ago; without faults it is far younger."""
    for one in run.of(log.Explained):
        yield from ((one.at, f"{one.extender} for {one.pod}: {wrong}") for wrong in _stale_uses(run, one))
    for view in run.of(log.Viewed):
        old = {
            node: each.age_seconds for node, each in view.nodes.items() if (each.age_seconds or 0.0) > FRESH_AGE_SECONDS
        }
        if old and run.has_been_quiet(view.at - FRESH_AGE_SECONDS, view.at):
            yield view.at, f"{view.extender} without a fault: {old} s old"


def _stale_uses(run: RunLog, one: log.Explained) -> Iterator[str]:
    for node, age in [*((used.reporter, used.age_seconds) for used in one.delays), *one.ages.items()]:
        if age is None or age > STALE_SECONDS:
            yield f"used a value of {node}, changed {seconds_or_never(age)} ago"
        since = one.at - STALE_SECONDS - _delivery_seconds(run, one)
        if not run.pushes.heartbeat_between(node, since, one.at + CLOCK_SECONDS):
            yield f"used a value of {node}, whose agent has not reported since {since:.1f}"
    for node, freshness in one.scored.items():
        if freshness != "fresh":
            yield f"scored {node} on its hardware, which is {freshness}"


def _delivery_seconds(run: RunLog, one: log.Explained) -> float:
    """What was on its way to an extender that the run froze is new to it when it wakes."""
    frozen = [down.until - down.at for down in run.of(log.Down) if down.process == one.extender and down.at <= one.at]
    return DELIVERY_SECONDS + max(frozen, default=0.0)


def answers(run: RunLog) -> Iterator[tuple[float, str]]:
    """A subset of the input, each node once, integer scores 0..10, in time; what was known beforehand is answered."""
    for one in run.of(log.Answered):
        untold = one.status == 0 and run.stalled(one.at, one.until)
        if untold or run.is_down(one.extender, one.at, one.until):
            continue
        if one.status != 200:
            yield one.at, f"{one.extender} answered {one.status} for {one.pod} after {one.seconds:.2f} s: {one.problem}"
        else:
            yield from ((one.at, f"{one.extender} for {one.pod}: {wrong}") for wrong in _wrong(run, one))
    for row in run.of(log.Injected):
        ratio = held_ratio(answers_during(run, row))
        if ratio < HELD_RATIO:
            yield row.at, f"{row.row}: only {ratio:.1%} of good requests answered within {LATE_SECONDS:g} s"


def _wrong(run: RunLog, one: log.Answered) -> Iterator[str]:
    judged = [*one.kept, *one.refused]
    if len(set(judged)) < len(judged) or set(judged) != set(one.candidates):
        yield f"kept {one.kept} and refused {one.refused} are not the {len(one.candidates)} candidates, each once"
    if one.problem:
        yield f"Error {one.problem!r} in a 200"
    if {host for host, _ in one.scores} != set(one.kept) or len(one.scores) != len(one.kept):
        yield f"scores of {len(one.scores)} nodes, {len(one.kept)} kept"
    bad = [score for _, score in one.scores if type(score) is not int or not 0 <= score <= 10]
    if bad:
        yield f"scores {bad[:3]}: want integers 0..10"
    yield from _unexpected(run, one)


def _unexpected(run: RunLog, one: log.Answered) -> Iterator[str]:
    """Against what the network itself makes the answer: never too many nodes, and without a fault never too few."""
    expected = frozenset(one.candidates) if one.expected is None else one.expected
    if beyond := set(one.kept) - expected:
        yield f"kept {sorted(beyond)}, beyond the pod's bound"
    missing = expected - set(one.kept)
    if missing and (one.expected is None or (run.is_quiet(one.at) and not one.overran)):
        yield f"refused {sorted(missing)}, which may take it"


def held_ratio(asked: Sequence[log.Answered]) -> float:
    """Share of the answers that came with 200 within kube-scheduler's own time-out, and were decided in time."""
    held = [one for one in asked if one.status == 200 and one.seconds <= LATE_SECONDS and not one.overran]
    return len(held) / len(asked) if asked else 1.0


def answers_during(run: RunLog, row: log.Injected) -> list[log.Answered]:
    """Of extenders that were not held down, while the run could tell."""
    during = [one for one in run.of(log.Answered) if row.at <= one.at <= row.until]
    untold = (run.is_down(one.extender, one.at, one.until) or run.stalled(one.at, one.until) for one in during)
    return [one for one, is_untold in zip(during, untold, strict=True) if not is_untold]


def hostile(run: RunLog) -> Iterator[tuple[float, str]]:
    """Bad input gets a clean 4xx or a closed connection, never a 5xx and never silence."""
    for one in run.of(log.Attacked):
        if one.status >= 500:
            yield one.at, f"{one.kind}: answered {one.status}"
        elif one.status < 0:
            yield one.at, f"{one.kind}: neither answered nor closed after {one.seconds:.0f} s"


def order(run: RunLog) -> Iterator[tuple[float, str]]:
    """A node's (epoch, seq) grows in the store; an extender never goes back in it."""
    yield from run.pushes.heartbeats_that_went_back()
    shown: dict[str, log.Viewed] = {}
    for view in run.of(log.Viewed):
        before = shown.get(view.extender)
        if before and view.revision < before.revision and not _may_begin_again(run, before, view):
            yield view.at, f"{view.extender} went back from revision {before.revision} to {view.revision}"
        shown[view.extender] = view


def _may_begin_again(run: RunLog, before: log.Viewed, view: log.Viewed) -> bool:
    """The run restarted the extender between the two views, or wiped the store, which each notices in its time."""
    restarted = any(
        down.process == view.extender and down.at <= view.at and before.at <= down.until + HANG_SECONDS
        for down in run.of(log.Down)
    )
    return restarted or run.pushes.era_at(before.at - HANG_SECONDS) < run.pushes.era_at(view.at + HANG_SECONDS)


def nothing_invented(run: RunLog) -> Iterator[tuple[float, str]]:
    """Every value in use was pushed by that node's agent; a view is what the store held at its revision."""
    for view in run.of(log.Viewed):
        where = f"{view.extender} at revision {view.revision}"
        for node, shown in view.nodes.items():
            if not run.pushes.holds(node, view.revision, view.at, shown.peers_p50_ms, shown.hardware):
                yield view.at, f"{where} shows values of {node} that the store did not hold"
    for one in run.of(log.Explained):
        since = one.at - 2 * STALE_SECONDS - _delivery_seconds(run, one)
        for used in one.delays:
            values = run.pushes.measured_ms(used.reporter, used.peer, since, one.at + CLOCK_SECONDS)
            raised = used.doubted and min(values, default=float("inf")) <= used.rtt_ms
            if used.rtt_ms not in values and not raised:
                yield one.at, f"{one.extender} used {used.reporter} → {used.peer} {used.rtt_ms} ms: nobody pushed it"


def recovery(run: RunLog) -> Iterator[tuple[float, str]]:
    for row in run.of(log.Injected):
        if row.failed:
            yield row.at, f"{row.row} could not be carried out: {row.failed}"
        for each in row.recoveries:
            limit = float("inf") if each.limit_seconds is None else each.limit_seconds
            if each.took_seconds is None or each.took_seconds > limit:
                took = f"{seconds_or_never(each.took_seconds)}, {limit:g} s allowed"
                yield row.healed_at, f"{row.row}: {each.what} after {took}"


def actuation(run: RunLog) -> Iterator[tuple[float, str]]:
    """Marks keep their budgets: how many, how fast, how long, how often, and none while few nodes are fresh."""
    marks = _Marks()
    for write in run.of(log.NodeWritten):
        if not marks.changes(write):
            continue
        yield from ((write.at, f"{write.writer}: {wrong}") for wrong in marks.take(write))
        fresh = run.pushes.fresh_ratio(write.at, STALE_SECONDS + DELIVERY_SECONDS)
        if fresh < MIN_FRESH_RATIO:
            yield write.at, f"{write.writer} changed {write.node} while {fresh:.0%} of the nodes were fresh"


class _Marks:
    """The marked nodes, and when each was marked."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}
        self._flips = defaultdict[str, list[float]](list)
        self._last = float("-inf")

    def changes(self, write: log.NodeWritten) -> bool:
        return _is_marked(write) != (write.node in self._since)

    def take(self, write: log.NodeWritten) -> Iterator[str]:
        """What is wrong with this change."""
        flips = self._flips[write.node]
        flips.append(write.at)
        if sum(at > write.at - HOUR_SECONDS for at in flips) > MAX_FLIPS:
            yield f"{write.node} was marked and unmarked {len(flips)} times in an hour"
        if _is_marked(write):
            if write.at - self._last < MARK_GAP_SECONDS - CLOCK_SECONDS:
                yield f"marked {write.node} {write.at - self._last:.1f} s after another node"
            self._since[write.node] = self._last = write.at
            if len(self._since) > MAX_MARKED:
                yield f"{len(self._since)} of {len(CLUSTER_NODES)} nodes are marked"
        elif write.at - (since := self._since.pop(write.node)) < HOLD_SECONDS - CLOCK_SECONDS:
            yield f"took the mark of {write.node} after {write.at - since:.1f} s"


def _is_marked(write: log.NodeWritten) -> bool:
    return write.labels.get(MARK[0]) == MARK[1]


def one_leader(run: RunLog) -> Iterator[tuple[float, str]]:
    """The holder of the Lease alone writes nodes and evicts pods; a call under way when the Lease changes hands may
    still land."""
    held = [(write.at, write.writer) for write in run.of(log.LeaseWritten) if write.holder]
    writes: list[log.NodeWritten | log.Evicted] = [*run.of(log.NodeWritten), *run.of(log.Evicted)]
    for write in writes:
        now = bisect_right(held, (write.at, "~"))
        then = bisect_right(held, (write.at - CLOCK_SECONDS, "~"))
        holders = {writer for _, writer in held[max(0, then - 1) : now]}
        if write.writer not in holders:
            what = f"wrote {write.node}" if isinstance(write, log.NodeWritten) else f"evicted {write.pod_uid}"
            yield write.at, f"{write.writer} {what} while {', '.join(sorted(holders)) or 'nobody'} led"


def foreign_labels(run: RunLog) -> Iterator[tuple[float, str]]:
    """A write of ours leaves every label that is not ours as it was."""
    for write in run.of(log.NodeWritten):
        lost = [label for label, value in FOREIGN_LABELS.items() if write.labels.get(label) != value]
        if lost:
            yield write.at, f"{write.writer} changed {', '.join(lost)} of {write.node}"


def evictions(run: RunLog) -> Iterator[tuple[float, str]]:
    """A pod is evicted when a plan says so, once its new node holds room for it, and no budget forbids it."""
    for one in run.of(log.Evicted):
        targets = {
            plan.moves[one.pod_uid]
            for plan in run.of(log.PlanHandedOver)
            if one.pod_uid in plan.moves and plan.at < one.at
        }
        if not any(
            hold.pod_uid == one.pod_uid and hold.node in targets and hold.at < one.at for hold in run.of(log.RoomHeld)
        ):
            yield (
                one.at,
                f"{one.writer} evicted {one.pod_uid} before room was held on {' or '.join(targets) or 'a node'}",
            )
        if one.pod_uid.startswith(GUARDED_WORKLOAD):
            yield one.at, f"{one.writer} evicted {one.pod_uid}, whose budget allows none"


def move_budget(run: RunLog) -> Iterator[tuple[float, str]]:
    """Few moves of a plan begin in a minute."""
    for plan in run.of(log.PlanHandedOver):
        begun = [hold.at for hold in run.of(log.RoomHeld) if plan.moves.get(hold.pod_uid) == hold.node]
        for first, last in zip(begun, begun[MOVES_A_MINUTE:], strict=False):
            if last - first < MOVE_SPAN_SECONDS:
                yield last, f"{MOVES_A_MINUTE + 1} moves of a plan began within {last - first:.0f} s"


def landings(run: RunLog) -> Iterator[tuple[float, str]]:
    """An evicted pod's owner is kept from the node that the pod left; an extender cannot know it without the API."""
    for one in run.of(log.Landed):
        steers = one.at < one.evicted_at + STEER_SECONDS and "api" not in run.row_at(one.at)
        if one.node == one.left and steers and not run.is_down(one.extender, one.at - DELIVERY_SECONDS, one.at):
            yield one.at, f"{one.extender} let an evicted pod return to {one.left}"


def rewards(run: RunLog) -> Iterator[tuple[float, str]]:
    """Each crash is counted once: never twice, and never lost, unless the store was wiped."""
    for node in {crash.node for crash in run.of(log.Crashed)}:
        crashes = [(crash.at, crash.total) for crash in run.of(log.Crashed) if crash.node == node]
        counted = run.pushes.counted_crashes(node)
        for at, _, count in counted:
            happened = _total_at(crashes, at + CLOCK_SECONDS)
            if count > happened:
                yield at, f"{node} counts {count} crashes of {happened}"
        end = run.pushes.last_heartbeat(node)
        expected = _total_at(crashes, end - STALE_SECONDS)
        last = counted[-1][2] if counted else 0
        if last < expected and run.pushes.era_at(end) == 0:
            yield end, f"{node} counts {last} crashes at the end, of {expected}"


def _total_at(crashes: Sequence[tuple[float, int]], at: float) -> int:
    place = bisect_right(crashes, (at, 1 << 30))
    return crashes[place - 1][1] if place else 0


def devices(run: RunLog) -> Iterator[tuple[float, str]]:
    """No card is given to two pods that ask for most of it, whichever extender was asked."""
    for given in run.of(log.CardGiven):
        if given.pods > CARDS_A_NODE:
            yield given.at, f"{given.extender} kept {given.node} for {given.pods} pods, which has {CARDS_A_NODE} cards"


def scrapes(run: RunLog) -> Iterator[tuple[float, str]]:
    """/metrics does no I/O: it answers whatever is away."""
    for one in run.of(log.Scraped):
        end = one.at + one.seconds
        late = (one.status != 200 or one.seconds > SCRAPE_SECONDS) and not run.stalled(one.at, end)
        if late and not run.is_down(one.process, one.at, end) and not run.ended(one.process, one.at):
            yield one.at, f"/metrics of {one.process}: {one.status or 'no answer'} after {one.seconds:.1f} s"


def memory(run: RunLog) -> Iterator[tuple[float, str]]:
    for one in run.of(log.MemoryPeak):
        if one.peak_bytes > one.limit_bytes:
            yield (
                one.at,
                f"{one.process} reached {one.peak_bytes >> 20} MiB; the manifests allow {one.limit_bytes >> 20}",
            )


def exits(run: RunLog) -> Iterator[tuple[float, str]]:
    for one in run.of(log.Ended):
        yield one.at, f"{one.process} ended with {one.code}"


PROMISES: dict[str, Examine] = {
    "G1 staleness": staleness,
    "G3 answers": answers,
    "G3 bad input": hostile,
    "G5 order": order,
    "G5 nothing invented": nothing_invented,
    "G6 recovery": recovery,
    "G7 actuation": actuation,
    "G7 one leader": one_leader,
    "G7 foreign labels": foreign_labels,
    "evictions": evictions,
    "move budget": move_budget,
    "landings": landings,
    "rewards": rewards,
    "devices": devices,
    "G8 scrape": scrapes,
    "memory": memory,
    "no process ends": exits,
}


def seconds_or_never(value: float | None) -> str:
    return "never" if value is None else f"{value:.1f} s"
