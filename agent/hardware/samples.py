"""What a collector yields: a Sample of a MetricFamily, or a SensorFault where one of several sensors failed. Pure.

They are the types that other packages' metrics are written with, `leadsman.plugin`.
"""

import errno
from collections.abc import Callable, Iterable

from leadsman.plugin import HostRoots, MetricFamily, NoData, Sample, SensorFault, counter, gauge

__all__ = [
    "ABSENT_ERRNOS",
    "CollectFunction",
    "HostRoots",
    "Labels",
    "MetricFamily",
    "NoData",
    "Sample",
    "SensorFault",
    "counter",
    "gauge",
]

Labels = tuple[str, ...]

ABSENT_ERRNOS = frozenset(
    {errno.ENOENT, errno.ENOTDIR, errno.ENODEV, errno.ENXIO, errno.ENODATA, errno.EOPNOTSUPP, errno.EINVAL}
)
"""How the kernel says "there is none". EOPNOTSUPP: PSI is off; ENODATA: a sensor sleeps; EINVAL: a link down."""

CollectFunction = Callable[[HostRoots], Iterable[Sample | SensorFault]]
"""Ours are functions, those of other packages the method `collect` of leadsman.plugin.Metrics."""
