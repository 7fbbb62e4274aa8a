"""The wire between this machine and a Network's hosts."""

import shutil
import subprocess

import pytest

from leadsman.testbed import virtual_network
from leadsman.testbed.uplink import Uplinks
from leadsman.testbed.virtual_network import VirtualNetwork

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(
        virtual_network.why_unavailable() is not None,
        reason=f"no network namespaces here: {virtual_network.why_unavailable()}",
    ),
    pytest.mark.skipif(shutil.which("ping") is None, reason="no ping: apt-get install iputils-ping"),
]


def test_every_host_is_reached_and_reaches_back_and_nothing_stays() -> None:
    with VirtualNetwork(["a", "b"]) as net, Uplinks(net) as up:
        devices = [up._device(host) for host in net.hosts]
        for host in net.hosts:
            subprocess.run(["ping", "-c1", "-W2", up.address(host)], check=True, capture_output=True)
            subprocess.run(net.command(host, ["ping", "-c1", "-W2", up.local_address]), check=True, capture_output=True)
    links = subprocess.run(["ip", "link"], capture_output=True, text=True).stdout
    assert not any(device in links for device in devices)
