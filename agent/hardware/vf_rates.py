"""What a dump of rtnetlink says of SR-IOV virtual functions: the max_tx_rate of each. Pure.

Sources: rtnetlink(7), include/uapi/linux/netlink.h, include/uapi/linux/if_link.h (IFLA_VFINFO_LIST, ifla_vf_rate).
All integers are in the host's byte order.
"""

import struct
from collections.abc import Iterator, Mapping

from msgspec import Struct

RTM_NEWLINK, RTM_GETLINK = 16, 18
NLMSG_ERROR, NLMSG_DONE = 2, 3
_REQUEST_AND_DUMP = 0x301  # NLM_F_REQUEST | NLM_F_DUMP
_IFLA_IFNAME, _IFLA_VFINFO_LIST, _IFLA_EXT_MASK = 3, 22, 29
_IFLA_VF_INFO, _IFLA_VF_TX_RATE, _IFLA_VF_RATE = 1, 3, 6
_RTEXT_FILTER_VF = 1
_TYPE_MASK = 0x3FFF  # without NLA_F_NESTED and NLA_F_NET_BYTEORDER
_HEADER, _LINK, _ATTRIBUTE = struct.Struct("=IHHII"), struct.Struct("=BxHiII"), struct.Struct("=HH")
_RATE, _OLD_RATE = struct.Struct("=III"), struct.Struct("=II")


class BadDump(ValueError):
    """The bytes are no dump of links, or the kernel refused it. Says where or why."""


class PhysicalFunction(Struct, frozen=True):
    """A network device that has virtual functions.

    rates_mbit: of each virtual function, its max_tx_rate; 0: unlimited.
    """

    device: str
    rates_mbit: tuple[int, ...]


def dump_request() -> bytes:
    """Asks for all links with their virtual functions."""
    body = _LINK.pack(0, 0, 0, 0, 0) + _ATTRIBUTE.pack(8, _IFLA_EXT_MASK) + struct.pack("=I", _RTEXT_FILTER_VF)
    return _HEADER.pack(_HEADER.size + len(body), RTM_GETLINK, _REQUEST_AND_DUMP, 1, 0) + body


def is_complete(dump: bytes) -> bool:
    """Whether the dump has its end, or an error in place of it. BadDump."""
    return any(kind in (NLMSG_DONE, NLMSG_ERROR) for kind, _ in _messages(dump))


def physical_functions(dump: bytes) -> Iterator[PhysicalFunction]:
    """The devices that have virtual functions. BadDump."""
    for kind, body in _messages(dump):
        try:
            if kind == NLMSG_ERROR:
                raise BadDump(f"the kernel refused the dump of links with errno {-struct.unpack_from('=i', body)[0]}")
            attributes = _attributes(body[_LINK.size :]) if kind == RTM_NEWLINK else {}
            if _IFLA_VFINFO_LIST in attributes:
                device = attributes[_IFLA_IFNAME].rstrip(b"\0").decode(errors="replace")
                yield PhysicalFunction(device, tuple(_rates(attributes[_IFLA_VFINFO_LIST])))
        except (KeyError, struct.error) as error:
            raise BadDump(f"a link lacks its name, or has a value that is too short: {error}") from error


def _rates(listed: bytes) -> Iterator[int]:
    for kind, info in _walk(listed, _ATTRIBUTE):
        if kind & _TYPE_MASK == _IFLA_VF_INFO:
            attributes = _attributes(info)
            if _IFLA_VF_RATE in attributes:
                yield _RATE.unpack_from(attributes[_IFLA_VF_RATE])[2]
            elif _IFLA_VF_TX_RATE in attributes:  # before Linux 3.16
                yield _OLD_RATE.unpack_from(attributes[_IFLA_VF_TX_RATE])[1]


def _messages(dump: bytes) -> Iterator[tuple[int, bytes]]:
    return _walk(dump, _HEADER)


def _attributes(data: bytes) -> Mapping[int, bytes]:
    """Type → value; of those that occur twice the last."""
    return {kind & _TYPE_MASK: value for kind, value in _walk(data, _ATTRIBUTE)}


def _walk(data: bytes, header: struct.Struct) -> Iterator[tuple[int, bytes]]:
    """Type and content of one after another, each aligned to 4 bytes; both headers begin with length and type."""
    start = 0
    while start < len(data):
        if len(data) - start < header.size:
            raise BadDump(f"{len(data) - start} bytes are left at {start}, fewer than a header has")
        length, kind = header.unpack_from(data, start)[:2]
        if not header.size <= length <= len(data) - start:
            raise BadDump(f"a part at {start} says that it has {length} bytes; {len(data) - start} are left")
        yield kind, data[start + header.size : start + length]
        start += (length + 3) & ~3
