"""What a collector yields: a Sample of a MetricFamily, or a SensorFault where one of several sensors failed. Pure."""

import errno
from collections.abc import Callable, Iterable
from typing import Literal

from msgspec import Struct

Labels = tuple[str, ...]


class MetricFamily(Struct, frozen=True):
    """A metric; calling it makes a Sample.

    name: without `leadsman_`, ending in the unit or `_total`.
    """

    name: str
    kind: Literal["gauge", "counter"]
    help: str
    labels: Labels = ()

    def __call__(self, value: float, *labels: str) -> "Sample":
        return Sample(self, value, labels)


class Sample(Struct, frozen=True):
    """One value. labels: values of the family's labels, in its order."""

    family: MetricFamily
    value: float
    labels: Labels = ()


class SensorFault(Struct, frozen=True):
    """A sensor that failed beside others that did not. message: path and error."""

    message: str


class HostRoots(Struct, frozen=True):
    """Where the host's /proc, /sys and root filesystem are mounted.

    rootfs: prefix of the host's mount points.
    own_network: the reader has a network namespace of its own, as a pod has without hostNetwork. What the kernel
        answers for the reader's namespace is then not the node's.
    """

    proc: str = "/proc"
    sys: str = "/sys"
    rootfs: str = "/"
    own_network: bool = False


class NoData(Exception):
    """This node has no such hardware, driver or kernel feature: an answer, not a fault."""


ABSENT_ERRNOS = frozenset(
    {errno.ENOENT, errno.ENOTDIR, errno.ENODEV, errno.ENXIO, errno.ENODATA, errno.EOPNOTSUPP, errno.EINVAL}
)
"""How the kernel says "there is none". EOPNOTSUPP: PSI is off; ENODATA: a sensor sleeps; EINVAL: a link down."""

CollectFunction = Callable[[HostRoots], Iterable[Sample | SensorFault]]


def gauge(name: str, text: str, *labels: str) -> MetricFamily:
    return MetricFamily(name, "gauge", text, labels)


def counter(name: str, text: str, *labels: str) -> MetricFamily:
    return MetricFamily(name, "counter", text, labels)
