"""The checker finds each broken promise: one log without a fault, and the same with one thing wrong."""

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from msgspec import structs

from tests.torture import checker, log, report
from tests.torture.checker import MAX_MARKED, RunLog, check
from tests.torture.log import (
    Answered,
    Attacked,
    Crashed,
    Down,
    Ended,
    Entry,
    Explained,
    Injected,
    LeaseWritten,
    MemoryPeak,
    NodeWritten,
    Pushed,
    Recovery,
    Scraped,
    UsedDelay,
    Viewed,
    ViewedNode,
)
from tests.torture.pushes import REWARD_KIND
from tests.torture.shape import FOREIGN_LABELS, MEMORY_LIMITS

MARKED, CALM = {"hot": "violating", **FOREIGN_LABELS}, FOREIGN_LABELS
MANIFESTS = Path(__file__).parents[2] / "daemonset"


def beat(at: float, node: str = "a", *, epoch: int = 5, era: int = 0) -> Pushed:
    """A heartbeat at `at`, which is also its seq and its revision."""
    return Pushed(at, era, int(at), node, "heartbeat", {"v": 1, "epoch": epoch, "seq": int(at)})


def latency(at: float, p50_ms: float, node: str = "a", peer: str = "b") -> Pushed:
    window = {"sent": 30, "received": 30, "p50_ms": p50_ms, "p95_ms": p50_ms + 1}
    return Pushed(at, 0, int(at), node, "latency", {"v": 1, "peers": {peer: window}})


def counted(at: float, crashes: int) -> Pushed:
    return Pushed(at, 0, int(at), "a", REWARD_KIND, {"v": 1, "incidents": {"crash": crashes}})


def view(at: float, revision: int, p50_ms: float | None = 3.0, *, age: float = 1.0, name: str = "x") -> Viewed:
    peers = {} if p50_ms is None else {"b": p50_ms}
    return Viewed(at, name, revision, {"a": ViewedNode("fresh", age, peers, {})})


def answer(at: float = 30.0, **changes: object) -> Answered:
    good = Answered(at, "x", "plain", "p", 0.01, 200, ("a", "b"), ("a", "b"), (), (("a", 3), ("b", 10)))
    return structs.replace(good, **changes)


def explained(
    at: float = 30.0, *, age: float = 4.0, rtt_ms: float = 3.0, scored: str = "fresh", doubted: bool = False
) -> Explained:
    return Explained(at, "x", "p", (UsedDelay("b", "a", "b", rtt_ms, age, doubted),), {"a": scored}, {"a": age})


def injected(at: float = 40.0, **changes: object) -> Injected:
    return structs.replace(Injected(at, "row", 0.0, at + 5, at + 10, (Recovery("view", 2.0, 10.0),)), **changes)


QUIET: list[Entry] = [
    latency(10, 3.0),
    *(beat(at) for at in range(11, 120, 5)),
    view(20.5, 16),
    view(31.0, 31),
    answer(),
    explained(),
    injected(),
    LeaseWritten(5.0, "c1", "c1"),
    NodeWritten(60.0, "c1", "a", MARKED),
    Scraped(30.0, "x", 0.01, 200),
    Attacked(41.0, "row", "bomb", 0.5, 413),
    Crashed(33.0, "a", 1),
    Crashed(53.0, "a", 2),
    counted(35.0, 1),
    counted(58.0, 2),
    MemoryPeak(50.5, "row", "x", 10 << 20, 20 << 20),
]


def test_a_run_in_which_all_is_well_has_no_violation() -> None:
    assert check(QUIET) == []


BROKEN: dict[str, tuple[str, Callable[[], list[Entry]]]] = {
    "a delay of a report 16 s old": ("G1 staleness", lambda: [explained(age=16.0)]),
    "a value of an agent that fell silent 18 s ago": ("G1 staleness", lambda: [explained(at=134.0)]),
    "hardware of a stale node": ("G1 staleness", lambda: [explained(scored="stale")]),
    "a view 9 s old without a fault": ("G1 staleness", lambda: [view(31.5, 31, age=9.0)]),
    "a node twice": ("G3 answers", lambda: [answer(kept=("a", "a"), scores=(("a", 3), ("a", 3)))]),
    "a node lost": ("G3 answers", lambda: [answer(kept=("a",), scores=(("a", 3),))]),
    "a node that was not asked for": ("G3 answers", lambda: [answer(candidates=("a",))]),
    "a score of 11": ("G3 answers", lambda: [answer(scores=(("a", 11), ("b", 0)))]),
    "a score that is no integer": ("G3 answers", lambda: [answer(scores=(("a", 1.5), ("b", 0)))]),
    "a node without a score": ("G3 answers", lambda: [answer(scores=(("a", 1),))]),
    "a node kept beyond its bound": ("G3 answers", lambda: [answer(expected=frozenset({"a"}))]),
    "a good node refused without a fault": (
        "G3 answers",
        lambda: [answer(expected=frozenset("ab"), kept=("a",), refused=("b",), scores=(("a", 3),))],
    ),
    "a refusal of a pod that asks for nothing": (
        "G3 answers",
        lambda: [answer(kept=("a",), refused=("b",), scores=(("a", 3),))],
    ),
    "a 500": ("G3 answers", lambda: [answer(status=500)]),
    "no answer": ("G3 answers", lambda: [answer(status=0)]),
    "one of ten late in a row": (
        "G3 answers",
        lambda: [answer(at=41.0 + number / 10, seconds=0.6 if number == 0 else 0.01) for number in range(10)],
    ),
    "one of ten without time to decide": (
        "G3 answers",
        lambda: [answer(at=41.0 + number / 10, overran=number == 0) for number in range(10)],
    ),
    "a 500 for junk": ("G3 bad input", lambda: [Attacked(41.0, "row", "bomb", 0.5, 500)]),
    "silence for junk": ("G3 bad input", lambda: [Attacked(41.0, "row", "bomb", 30.0, -1)]),
    "a heartbeat that goes back": ("G5 order", lambda: [beat(33.5, epoch=4)]),
    "a view that goes back": ("G5 order", lambda: [view(32.0, 16)]),
    "a value that nobody pushed": ("G5 nothing invented", lambda: [view(32.0, 31, 9.0)]),
    "a value that is not yet pushed": ("G5 nothing invented", lambda: [latency(50, 9.0), view(32.0, 31, 9.0)]),
    "a value that the store holds no more": ("G5 nothing invented", lambda: [latency(25, 9.0), view(32.0, 31, 3.0)]),
    "a decision on a value that nobody pushed": ("G5 nothing invented", lambda: [explained(rtt_ms=9.0)]),
    "a doubted value that counts as less than was pushed": (
        "G5 nothing invented",
        lambda: [explained(rtt_ms=2.9, doubted=True)],
    ),
    "a decision on a value that was replaced long ago": (
        "G5 nothing invented",
        lambda: [latency(12, 9.0), *(beat(at) for at in range(121, 200, 5)), explained(at=190.0, rtt_ms=3.0)],
    ),
    "a recovery over its limit": ("G6 recovery", lambda: [injected(recoveries=(Recovery("view", 11.0, 10.0),))]),
    "no recovery": ("G6 recovery", lambda: [injected(recoveries=(Recovery("view", None, 10.0),))]),
    "a row that failed": ("G6 recovery", lambda: [injected(failed="no etcd")]),
    "a mark 5 s after another": ("G7 actuation", lambda: [NodeWritten(65.0, "c1", "b", MARKED)]),
    "a mark taken back after 30 s": ("G7 actuation", lambda: [NodeWritten(90.0, "c1", "a", CALM)]),
    "too many marks": (
        "G7 actuation",
        lambda: [NodeWritten(70.0 + 10 * n, "c1", f"n{n}", MARKED) for n in range(MAX_MARKED)],
    ),
    "a node marked and unmarked all the time": (
        "G7 actuation",
        lambda: [
            *(beat(at) for at in range(121, 700, 5)),
            *(NodeWritten(60.0 + 70 * n, "c1", "a", CALM if n % 2 else MARKED) for n in range(1, 8)),
        ],
    ),
    "a mark while nobody reports": (
        "G7 actuation",
        lambda: [NodeWritten(150.0, "c1", "a", CALM), LeaseWritten(140.0, "c1", "c1")],
    ),
    "a write of one that does not lead": ("G7 one leader", lambda: [NodeWritten(60.5, "c2", "a", MARKED)]),
    "a write of one that led two seconds ago": (
        "G7 one leader",
        lambda: [LeaseWritten(58.0, "c2", "c2")],
    ),
    "a label of somebody else that is gone": (
        "G7 foreign labels",
        lambda: [NodeWritten(150.0, "c1", "a", {"hot": "violating"})],
    ),
    "a crash counted twice": ("rewards", lambda: [counted(60.0, 3)]),
    "a crash counted before it happened": ("rewards", lambda: [counted(40.0, 2)]),
    "a crash that was lost": ("rewards", lambda: [Crashed(70.0, "a", 3)]),
    "a scrape without an answer": ("G8 scrape", lambda: [Scraped(42.0, "x", 5.0, 0)]),
    "a slow scrape": ("G8 scrape", lambda: [Scraped(42.0, "x", 3.0, 200)]),
    "memory over the manifest's limit": ("memory", lambda: [MemoryPeak(50.0, "row", "x", 21 << 20, 20 << 20)]),
    "a process that ended": ("no process ends", lambda: [Ended(42.0, "x", 1)]),
}


@pytest.mark.parametrize("what", BROKEN)
def test_one_thing_wrong_is_a_violation_of_its_promise_and_of_no_other(what: str) -> None:
    promise, entries = BROKEN[what]
    assert {violation.promise for violation in check([*QUIET, *entries()])} == {promise}


def test_every_promise_is_broken_by_one_of_these() -> None:
    assert {promise for promise, _ in BROKEN.values()} == set(checker.PROMISES)


@pytest.mark.parametrize(
    "entry", [answer(at=42.0, status=0), Scraped(42.0, "x", 5.0, 0)], ids=["no answer", "no scrape"]
)
def test_what_the_run_itself_held_down_owes_nothing(entry: Entry) -> None:
    assert check([*QUIET, Down(41.0, "x", 46.0), entry]) == []


def test_an_extender_that_was_restarted_may_begin_at_an_earlier_revision() -> None:
    assert check([*QUIET, Down(41.0, "x", 43.0), view(44.0, 0, None)]) == []


def test_in_a_wiped_store_revisions_and_epochs_begin_again() -> None:
    wiped = [structs.replace(beat(at, era=1, epoch=1), revision=2) for at in (121.0, 122.0)]
    assert check([*QUIET, *wiped, view(123.0, 2, None)]) == []


def test_a_bounded_pod_may_be_refused_everywhere_during_a_fault() -> None:
    refused = answer(at=42.0, expected=frozenset("ab"), kept=(), refused=("a", "b"), scores=())
    assert check([*QUIET, refused]) == []


def test_a_doubted_value_may_count_as_more_than_was_pushed() -> None:
    assert check([*QUIET, explained(rtt_ms=9.0, doubted=True)]) == []


def test_rows_that_overlap_leave_no_quiet_between_their_beginnings() -> None:
    second = injected(at=46.0, row="other")
    refused = answer(at=43.0, expected=frozenset("ab"), kept=(), refused=("a", "b"), scores=())
    assert check([*QUIET, second, refused]) == []


def test_a_short_fault_between_two_quiet_moments_makes_a_view_old() -> None:
    rows = [injected(at=140.0, until=144.0, quiet_since=131.0), injected(at=160.0, quiet_since=145.0)]
    beats = [beat(at) for at in range(121, 150, 5)]
    assert check([*QUIET, *beats, *rows, view(147.0, 146, age=9.0)]) == []


def test_a_recovery_without_a_limit_must_only_happen() -> None:
    late, never = (injected(recoveries=(Recovery("view", took, None),)) for took in (59.0, None))
    assert check([*QUIET, late]) == []
    assert [violation.promise for violation in check([*QUIET, never])] == ["G6 recovery"]


def test_a_write_under_way_when_the_lease_changes_hands_may_land() -> None:
    assert check([*QUIET, LeaseWritten(59.5, "c2", "c2")]) == []


def test_a_violation_names_the_rows_under_way() -> None:
    overlapping = injected(at=42.0, row="other")
    [violation] = check([*QUIET, overlapping, Ended(43.0, "x", 1)])
    assert violation.row == "row + other"


def test_the_table_has_a_line_a_row_and_each_violation() -> None:
    broken = [*QUIET, Attacked(41.0, "row", "bomb", 0.5, 500)]
    text = report.table(RunLog(broken), check(broken), {})
    [line] = [line for line in text.splitlines() if line.startswith("row ") and "NO" in line]
    assert " ".join(line.split()) == "row 100.0% of 0 0 ms 2 NO 1 view 2.0 s x 10 MiB"
    assert "bomb: answered 500" in text


def test_a_log_is_read_as_it_was_written(tmp_path: Path) -> None:
    log.write(tmp_path / "log.jsonl", QUIET)
    assert log.read(tmp_path / "log.jsonl") == QUIET


@pytest.mark.parametrize(
    ("kind", "manifest"),
    [
        ("agent", "base/agent.yaml"),
        ("extender", "base/extender.yaml"),
        ("controller", "components/controller/controller.yaml"),
    ],
)
def test_the_memory_limits_are_those_of_the_manifests(kind: str, manifest: str) -> None:
    documents = yaml.safe_load_all((MANIFESTS / manifest).read_text())
    limits = [
        container["resources"]["limits"]["memory"]
        for document in documents
        if document["kind"] in ("Deployment", "DaemonSet")
        for container in document["spec"]["template"]["spec"]["containers"]
    ]
    assert f"{MEMORY_LIMITS[kind] >> 20}Mi" in limits
