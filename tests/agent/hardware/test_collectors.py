from agent.hardware.monitor import default_collectors


def test_two_tables_share_no_state() -> None:
    assert default_collectors()["nvidia"] is not default_collectors()["nvidia"]
