"""A TUN device: what the kernel sends into it is read as IP packets, what is written comes out as received."""

import fcntl
import os
import struct

DEVICE = "/dev/net/tun"

# linux/if_tun.h
_TUNSETIFF = 0x400454CA
_IFF_TUN = 0x0001
_IFF_NO_PI = 0x1000


def open_tun(name: str) -> int:
    """A non-blocking descriptor of a new TUN device in the caller's network namespace. It goes when closed."""
    descriptor = os.open(DEVICE, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        fcntl.ioctl(descriptor, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _IFF_TUN | _IFF_NO_PI))
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
