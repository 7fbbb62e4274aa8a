"""What is worth a write."""

import pytest

from agent.reporting import worth_writing
from leadsman.state.records import (
    Hardware,
    Latency,
    PeerLatency,
    PeerSilence,
    ProbeMethod,
    Reachability,
    RingCoordinate,
    RingEntry,
)


def latency(
    p50: float = 10.0, p95: float = 12.0, received: int = 30, method: ProbeMethod = ProbeMethod.ICMP
) -> Latency:
    return Latency({"edge-2": PeerLatency(30, received, p50, p95, min(p50, 1.0), 0.1, method=method)})


@pytest.mark.parametrize(
    ("after", "written"),
    [
        (latency(), False),
        (latency(p50=10.4), False),
        (latency(p50=10.6), True),
        (latency(p95=15.5), True),
        (latency(received=29), False),
        (latency(received=27), True),
        (latency(method=ProbeMethod.TCP), True),
        (Latency({"edge-2": PeerLatency(30, 0)}), True),
        (Latency({**latency().peers, "edge-3": PeerLatency(1, 0)}), True),
    ],
)
def test_latency_is_written_when_it_moved_out_of_its_band(after: Latency, written: bool) -> None:
    assert worth_writing(latency(), after) is written


@pytest.mark.parametrize(
    ("name", "before", "after", "written"),
    [
        ("cpu_busy_ratio", 0.50, 0.51, False),
        ("cpu_busy_ratio", 0.10, 0.15, True),
        ("temperature_celsius", 5.0, 5.9, False),
        ("temperature_celsius", 5.0, 6.5, True),
        ("edac_uncorrectable_errors", 0.0, 1.0, True),
    ],
)
def test_hardware_is_written_when_a_value_left_its_band(name: str, before: float, after: float, written: bool) -> None:
    assert worth_writing(Hardware({name: before}), Hardware({name: after})) is written


def entry(x: float = 10.0, error: float = 0.2, reach_ms: float | None = 4.0, **more) -> RingEntry:
    there = RingCoordinate((x, 0.0, 0.0, 0.0), 0.5, 0.1, error)
    return RingEntry("10.0.0.1", **{"coordinate": there, "reach_ms": reach_ms, "near": ("a", "b")} | more)


@pytest.mark.parametrize(
    ("after", "written"),
    [
        (entry(), False),
        (entry(x=10.3), False),
        (entry(x=10.5), True),
        (entry(x=10.3, reach_ms=0.5), True),
        (entry(coordinate=RingCoordinate((10.0, 0.0, 0.0, 0.0), 1.0, 0.1, 0.2)), True),
        (entry(coordinate=RingCoordinate((10.0, 0.0, 0.0, 0.0), 0.5, 0.6, 0.2)), True),
        (entry(error=0.35), True),
        (entry(reach_ms=6.0), True),
        (entry(near=("a", "c")), False),
        (entry(near=("a", "b", "c")), True),
        (entry(coordinate=None), True),
        (RingEntry("10.0.0.2", entry().coordinate, 4.0, ("a", "b")), True),
    ],
)
def test_a_ring_entry_is_written_when_who_is_near_could_look_different(after: RingEntry, written: bool) -> None:
    assert worth_writing(entry(), after) is written


def test_reachability_is_written_when_a_peer_falls_silent_or_answers_and_not_while_it_stays_silent() -> None:
    def said(losses: int, age: float, fault: str = "") -> Reachability:
        return Reachability({"a": 0, "b": losses}, {"b": PeerSilence(age)} if losses >= 3 else {}, 2, 1, fault)

    assert worth_writing(None, said(0, 0.0))
    assert not worth_writing(said(0, 0.0), said(2, 0.0))
    assert worth_writing(said(2, 0.0), said(3, 3.0))
    assert not worth_writing(said(3, 3.0), said(9, 9.0))
    assert worth_writing(said(9, 9.0), said(0, 0.0))
    assert worth_writing(said(9, 9.0), said(9, 9.0, "no peer has answered for 7 s"))
    assert not worth_writing(said(9, 9.0, "for 7 s"), said(9, 9.0, "for 8 s"))
