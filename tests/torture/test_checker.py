"""The checker finds each broken promise: one log without a fault, and the same with one thing wrong."""

from collections.abc import Callable

import pytest
from msgspec import structs

from tests.torture import checker, log
from tests.torture.checker import MAX_MARKED, check
from tests.torture.pushes import REWARD_KIND
from tests.torture.shape import CARDS_A_NODE, FOREIGN_LABELS, GUARDED_WORKLOAD

MARKED, CALM = {"hot": "violating", **FOREIGN_LABELS}, FOREIGN_LABELS


def beat(at: float) -> log.Pushed:
    """A heartbeat at `at`, which is also its seq and its revision."""
    return log.Pushed(at, 0, int(at), "a", "heartbeat", {"v": 1, "epoch": 5, "seq": int(at)})


def latency(at: float, p50_ms: float, node: str = "a", peer: str = "b") -> log.Pushed:
    window = {"sent": 30, "received": 30, "p50_ms": p50_ms, "p95_ms": p50_ms + 1}
    return log.Pushed(at, 0, int(at), node, "latency", {"v": 1, "peers": {peer: window}})


def counted(at: float, crashes: int) -> log.Pushed:
    return log.Pushed(at, 0, int(at), "a", REWARD_KIND, {"v": 1, "incidents": {"crash": crashes}})


def view(at: float, revision: int, p50_ms: float | None = 3.0, *, age: float = 1.0, name: str = "x") -> log.Viewed:
    peers = {} if p50_ms is None else {"b": p50_ms}
    return log.Viewed(at, name, revision, {"a": log.ViewedNode("fresh", age, peers, {})})


def answer(at: float = 30.0, **changes: object) -> log.Answered:
    good = log.Answered(at, "x", "p", ("a", "b"), None, 200, 0.01, ("a", "b"), (), (("a", 3), ("b", 10)))
    return structs.replace(good, **changes)


def explained(
    at: float = 30.0, *, age: float = 4.0, rtt_ms: float = 3.0, scored: str = "fresh", doubted: bool = False
) -> log.Explained:
    return log.Explained(at, "x", "p", (log.UsedDelay("b", "a", "b", rtt_ms, age, doubted),), {"a": scored}, {"a": age})


def injected(at: float = 40.0, **changes: object) -> log.Injected:
    return structs.replace(log.Injected(at, "row", 0.0, at + 5, at + 10, (log.Recovery("view", 2.0, 10.0),)), **changes)


QUIET: list[log.Observation] = [
    latency(10, 3.0),
    *(beat(at) for at in range(11, 120, 5)),
    view(20.5, 16),
    view(31.0, 31),
    answer(),
    explained(),
    injected(),
    log.LeaseWritten(5.0, "c1", "c1"),
    log.NodeWritten(60.0, "c1", "a", MARKED),
    log.Scraped(30.0, "x", 0.01, 200),
    log.Attacked(41.0, "bomb", 0.5, 413),
    log.Crashed(33.0, "a", 1),
    log.Crashed(53.0, "a", 2),
    counted(35.0, 1),
    counted(58.0, 2),
    log.CardGiven(34.0, "x", "a", CARDS_A_NODE),
    log.PlanHandedOver(30.0, "plan", {**{f"w-{n}": "b" for n in range(1, 9)}, f"{GUARDED_WORKLOAD}-0": "b"}),
    log.RoomHeld(31.0, "w-1", "b"),
    log.Evicted(32.0, "c1", "w-1"),
    log.Landed(33.0, "x", "b", "a", 32.0),
    log.MemoryPeak(50.5, "row", "x", 10 << 20, 20 << 20),
]


def test_a_run_in_which_all_is_well_has_no_violation() -> None:
    assert check(QUIET) == []


BROKEN: dict[str, tuple[str, Callable[[], list[log.Observation]]]] = {
    "a delay of a report 16 s old": ("G1 staleness", lambda: [explained(age=16.0)]),
    "a value of an agent that fell silent 18 s ago": ("G1 staleness", lambda: [explained(at=134.0)]),
    "a view 9 s old without a fault": ("G1 staleness", lambda: [view(31.5, 31, age=9.0)]),
    "a node lost": ("G3 answers", lambda: [answer(kept=("a",), scores=(("a", 3),))]),
    "a node kept beyond its bound": ("G3 answers", lambda: [answer(expected=frozenset({"a"}))]),
    "a good node refused without a fault": (
        "G3 answers",
        lambda: [answer(expected=frozenset("ab"), kept=("a",), refused=("b",), scores=(("a", 3),))],
    ),
    "no answer": ("G3 answers", lambda: [answer(status=0)]),
    "one of ten late in a row": (
        "G3 answers",
        lambda: [answer(at=41.0 + number / 10, seconds=0.6 if number == 0 else 0.01) for number in range(10)],
    ),
    "a 500 for junk": ("G3 bad input", lambda: [log.Attacked(41.0, "bomb", 0.5, 500)]),
    "a view that goes back": ("G5 order", lambda: [view(32.0, 16)]),
    "a value that nobody pushed": ("G5 nothing invented", lambda: [view(32.0, 31, 9.0)]),
    "a value that the store holds no more": ("G5 nothing invented", lambda: [latency(25, 9.0), view(32.0, 31, 3.0)]),
    "no recovery": ("G6 recovery", lambda: [injected(recoveries=(log.Recovery("view", None, 10.0),))]),
    "a mark 5 s after another": ("G7 actuation", lambda: [log.NodeWritten(65.0, "c1", "b", MARKED)]),
    "too many marks": (
        "G7 actuation",
        lambda: [log.NodeWritten(70.0 + 10 * n, "c1", f"n{n}", MARKED) for n in range(MAX_MARKED)],
    ),
    "a write of one that does not lead": ("G7 one leader", lambda: [log.NodeWritten(60.5, "c2", "a", MARKED)]),
    "a label of somebody else that is gone": (
        "G7 foreign labels",
        lambda: [log.NodeWritten(150.0, "c1", "a", {"hot": "violating"})],
    ),
    "a crash counted twice": ("rewards", lambda: [counted(60.0, 3)]),
    "a crash that was lost": ("rewards", lambda: [log.Crashed(70.0, "a", 3)]),
    "a card given twice": ("devices", lambda: [log.CardGiven(43.0, "x", "a", CARDS_A_NODE + 1)]),
    "an eviction before room is held": (
        "evictions",
        lambda: [log.Evicted(33.0, "c1", "w-2"), log.RoomHeld(34.0, "w-2", "b")],
    ),
    "an eviction that no plan asked for": (
        "evictions",
        lambda: [log.RoomHeld(31.0, "w-9", "b"), log.Evicted(33.0, "c1", "w-9")],
    ),
    "an eviction that a budget forbids": (
        "evictions",
        lambda: [log.RoomHeld(31.0, f"{GUARDED_WORKLOAD}-0", "b"), log.Evicted(33.0, "c1", f"{GUARDED_WORKLOAD}-0")],
    ),
    "an eviction by one that does not lead": (
        "G7 one leader",
        lambda: [log.RoomHeld(60.0, "w-2", "b"), log.Evicted(61.0, "c2", "w-2")],
    ),
    "seven moves at once": ("move budget", lambda: [log.RoomHeld(31.0 + n, f"w-{n}", "b") for n in range(2, 8)]),
    "a pod that returns": ("landings", lambda: [log.Landed(34.0, "x", "a", "a", 32.0)]),
    "a scrape without an answer": ("G8 scrape", lambda: [log.Scraped(42.0, "x", 5.0, 0)]),
    "memory over the manifest's limit": ("memory", lambda: [log.MemoryPeak(50.0, "row", "x", 21 << 20, 20 << 20)]),
    "a process that ended": ("no process ends", lambda: [log.Ended(42.0, "x", 1)]),
}


@pytest.mark.parametrize("what", BROKEN)
def test_one_thing_wrong_is_a_violation_of_its_promise_and_of_no_other(what: str) -> None:
    promise, entries = BROKEN[what]
    assert {violation.promise for violation in check([*QUIET, *entries()])} == {promise}


def test_every_promise_is_broken_by_one_of_these() -> None:
    assert {promise for promise, _ in BROKEN.values()} == set(checker.PROMISES)
