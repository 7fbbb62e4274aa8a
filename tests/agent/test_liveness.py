"""Loops that hang are noticed."""

from agent.reporting import LoopLiveness


def test_a_loop_is_stalled_when_its_count_stands_beyond_the_limit() -> None:
    now, rounds = [0.0], {"probes": 0, "hardware": 0}
    counts = {"probes": lambda: rounds["probes"], "hardware": lambda: rounds["hardware"]}
    progress = LoopLiveness(counts, 10.0, lambda: now[0])
    assert progress.stalled() == {}
    now[0], rounds["probes"] = 11.0, 1
    assert progress.stalled() == {"hardware": 11.0}
    rounds["hardware"] = 1
    assert progress.stalled() == {}


def test_two_progresses_do_not_share_what_they_saw() -> None:
    first = LoopLiveness({"a": lambda: 0}, 1.0, lambda: 0.0)
    first.stalled()
    assert LoopLiveness({"a": lambda: 0}, 1.0, lambda: 100.0).stalled() == {}
