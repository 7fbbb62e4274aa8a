import pytest

from agent.rtt.icmp import IcmpRefused, open_sockets


@pytest.fixture
def icmp():
    """Real ICMP sockets by family."""
    try:
        sockets = open_sockets()
    except IcmpRefused:
        pytest.skip('ICMP is refused: sysctl -w net.ipv4.ping_group_range="0 2147483647"')
    yield sockets
    for sock in sockets.values():
        sock.close()
