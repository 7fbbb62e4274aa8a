import socket

import pytest

from agent.rtt.icmp import IpVersion, parse_literal, resolve


@pytest.mark.parametrize(
    ("address", "version", "canonical"),
    [
        ("10.0.0.1", IpVersion.V4, "10.0.0.1"),
        ("::1", IpVersion.V6, "::1"),
        ("2001:DB8:0:0::1", IpVersion.V6, "2001:db8::1"),
    ],
)
def test_an_address_is_written_as_the_kernel_writes_it(address: str, version, canonical: str) -> None:
    """The source of a reply is compared with it as text."""
    found = parse_literal(address)
    assert (found.version, found.address[0]) == (version, canonical)


@pytest.mark.parametrize("name", ["", "node-1", "10.0.0", "10.0.0.256", "fe80::1%no-such-device"])
def test_what_is_no_address_is_a_name(name: str) -> None:
    assert parse_literal(name) is None


def test_the_port_replaces_only_the_port() -> None:
    assert parse_literal("::1").at_port(9102) == ("::1", 9102, 0, 0)
    assert parse_literal("::1").family is socket.AF_INET6


async def test_localhost_resolves() -> None:
    assert (await resolve("localhost")).address[0] in ("127.0.0.1", "::1")


@pytest.mark.parametrize("name", ["no-such-node.invalid", "x" * 70 + ".invalid", "a..b"])
async def test_a_name_without_an_address_is_none(name) -> None:
    assert await resolve(name) is None
