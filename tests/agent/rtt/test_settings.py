import pytest

from agent.rtt.peer import ProbeSettings


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"interval_seconds": 0.0}, "probe interval 0.0 s: must be 0.01 to 3600"),
        ({"timeout_seconds": 10.1}, "probe timeout 10.1 s: must be 0.001 to 10"),
        ({"timeout_seconds": float("nan")}, "probe timeout nan s"),
        ({"window_seconds": 0.5}, "window 0.5 s: must be 1 to 86400"),
        ({"tcp_port": 0}, "TCP probe port 0: must be 1 to 65535"),
    ],
)
def test_a_setting_out_of_bounds_is_named_with_what_is_allowed(change, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ProbeSettings(**change)
