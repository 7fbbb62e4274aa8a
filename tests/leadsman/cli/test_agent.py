"""What the agent takes from its flags and its pod's environment, and the address at which it is to be probed."""

import argparse

import pytest

from leadsman.cli.agent import own_address


@pytest.mark.parametrize("text", ["10.0.0.7", "fd00::7"])
def test_an_ip_address_can_be_probed(text: str) -> None:
    assert own_address(text) == text


@pytest.mark.parametrize("text", ["10.0.0.256", "0.0.0.0", "::", "224.0.0.1", "edge-1", "http://10.0.0.7"])
def test_what_no_host_can_have_as_its_address_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="want an IP address"):
        own_address(text)
