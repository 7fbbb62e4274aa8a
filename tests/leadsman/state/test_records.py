"""Bounds that a Struct's construction checks by itself; those that only decoding checks are in test_codec."""

import pytest

from leadsman.state.records import PeerLatency


def test_the_loss_of_no_probes_is_unknown_and_not_zero() -> None:
    assert PeerLatency(sent=0, received=0).loss_ratio is None


@pytest.mark.parametrize(
    "fields",
    [
        {"sent": 1, "received": 2, "p50_ms": 1.0, "p95_ms": 1.0},
        {"sent": 2, "received": 1},
        {"sent": 2, "received": 1, "p50_ms": 1.0},
        {"sent": 2, "received": 0, "p50_ms": 1.0, "p95_ms": 1.0},
        {"sent": 2, "received": 0, "p95_ms": 1.0},
        {"sent": 2, "received": 2, "p50_ms": 2.0, "p95_ms": 1.0},
        {"sent": 2, "received": 2, "min_ms": 2.0, "p50_ms": 1.0, "p95_ms": 3.0},
    ],
)
def test_a_window_that_contradicts_itself_cannot_be_built(fields: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"received|p50_ms"):
        PeerLatency(**fields)  # type: ignore[arg-type]
