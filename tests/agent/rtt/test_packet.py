import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent.rtt.icmp import (
    MAX_COUNTER,
    REPLY_TYPES,
    EchoPayload,
    IpVersion,
    checksum,
    decode_reply,
    encode_request,
    strip_ipv4_header,
)

echoes = st.builds(EchoPayload, st.binary(min_size=8, max_size=8), st.integers(0, MAX_COUNTER))
versions = st.sampled_from(IpVersion)
identifiers = st.integers(0, 0xFFFF)


def answer(version, message):
    """What a host makes of a request: another type, the rest as it was."""
    return bytes([REPLY_TYPES[version]]) + message[1:]


@given(versions, echoes, identifiers)
def test_the_answer_to_a_request_carries_its_echo(version, echo, identifier) -> None:
    assert decode_reply(version, answer(version, encode_request(version, echo, identifier))) == echo


@given(versions, echoes, identifiers)
def test_a_request_is_no_reply(version, echo, identifier) -> None:
    """A raw socket on loopback sees its own requests."""
    assert decode_reply(version, encode_request(version, echo, identifier)) is None


@given(versions, echoes, identifiers)
def test_the_checksum_of_a_whole_request_is_zero(version, echo, identifier) -> None:
    assert checksum(encode_request(version, echo, identifier)) == 0


def test_a_request_is_as_long_as_that_of_ping() -> None:
    assert len(encode_request(IpVersion.V4, EchoPayload(bytes(8), 1), 1)) == 8 + 56


@given(versions, st.binary(max_size=100))
@example(IpVersion.V4, b"")
@example(IpVersion.V6, bytes([129]) + bytes(22))
def test_hostile_bytes_are_an_echo_or_nothing(version, data) -> None:
    found = decode_reply(version, data)
    assert found is None or (len(found.cookie) == 8 and 0 <= found.counter <= MAX_COUNTER)


@given(st.binary(max_size=100))
def test_hostile_ip_headers_give_a_tail_of_the_packet(data) -> None:
    assert data.endswith(strip_ipv4_header(data))


@pytest.mark.parametrize("options", [0, 4, 40])
def test_the_ip_header_goes_with_its_options(options: int) -> None:
    header = bytes([0x45 + options // 4]) + bytes(19 + options)
    assert strip_ipv4_header(header + b"message") == b"message"
