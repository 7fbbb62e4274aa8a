"""What the agent takes from its flags and its pod's environment, and the address at which it is to be probed."""

import argparse
import socket

import pytest

from leadsman.cli.agent import own_address, require_known_host


@pytest.mark.parametrize("text", ["10.0.0.7", "fd00::7", "edge-1", "edge-1.example.com", "7.example.com"])
def test_an_ip_address_and_a_host_name_can_be_probed(text: str) -> None:
    assert own_address(text) == text


@pytest.mark.parametrize(
    "text",
    ["10.0.0.256", "10.0.0", "0.0.0.0", "::", "224.0.0.1", "-edge", "edge_1", "edge..1", "a" * 64, "http://edge-1"],
)
def test_what_no_host_can_have_as_its_address_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="want an IP address, or a host name"):
        own_address(text)


class Resolver:
    """Has this error for each name."""

    def __init__(self, number: int) -> None:
        self._error = socket.gaierror(number, "as getaddrinfo says it")

    def __call__(self, *_: object) -> object:
        raise self._error


def test_a_name_that_nobody_has_is_refused_by_flag_and_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", Resolver(socket.EAI_NONAME))
    with pytest.raises(ValueError, match="--address nohost: no host has this name; want an IP address"):
        require_known_host("nohost")


def test_an_agent_starts_while_names_cannot_be_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", Resolver(socket.EAI_AGAIN))
    require_known_host("edge-1")
