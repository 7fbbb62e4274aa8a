"""Asks the kernel for all links of this network namespace: rtnetlink(7)."""

import socket

from agent.hardware.vf_rates import dump_request, is_complete

_TIMEOUT_SECONDS = 2.0
_LARGEST_PART_BYTES = 1 << 20
"""Of one read. The kernel sends a link with 256 virtual functions, of some 350 bytes each, in one message."""
_LARGEST_DUMP_BYTES = 16 << 20


def read_link_dump() -> bytes:
    """All links of this network namespace, as rtnetlink dumps them. OSError; BadDump."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as rtnetlink:
        rtnetlink.settimeout(_TIMEOUT_SECONDS)
        rtnetlink.send(dump_request())
        dump, part = bytearray(), b""
        while not is_complete(part):
            part = rtnetlink.recv(_LARGEST_PART_BYTES)
            dump += part
            if len(dump) > _LARGEST_DUMP_BYTES:
                raise OSError(f"the kernel's dump of links has more than {_LARGEST_DUMP_BYTES} bytes")
        return bytes(dump)
