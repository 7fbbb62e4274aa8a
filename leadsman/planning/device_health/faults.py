"""What is wrong with a device, by the metrics of dcgm-exporter.

XIDs: docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html.
"""

import math
from collections.abc import Iterator, Mapping

from msgspec import Struct

from leadsman.cluster.devices.monitored import ROW_REMAP_FAILURE, THROTTLE_REASONS, UNCORRECTABLE_ERRORS, XID
from leadsman.decision.policy import DeviceHealthPolicy

HARMFUL_THROTTLING = 0x08 | 0x20 | 0x40 | 0x80
"""Hardware slowdown, heat by software and by hardware, power brake. Idle clocks and power caps are no fault. nvml.h"""

LEAVE_RATIO = 0.8
"""A throttled device counts as throttled until it is so for less than this share of the threshold."""


class Fault(Struct, frozen=True):
    """code: a value of a label. text: for people."""

    code: str
    text: str


def is_throttled(values: Mapping[str, float]) -> bool:
    """Whether something that is no choice of the operator slows the device down."""
    return any(int(values.get(metric, 0)) & HARMFUL_THROTTLING for metric in THROTTLE_REASONS)


def throttled_ratio(before: float, throttled: bool, elapsed_seconds: float, window_seconds: float) -> float:
    """The share of the time, older time counting less: exponentially weighted over `window_seconds`."""
    weight = 1.0 - math.exp(-elapsed_seconds / window_seconds)
    return before + weight * (throttled - before)


def device_faults(
    values: Mapping[str, float], throttled: float, policy: DeviceHealthPolicy, was_faulty: bool
) -> Iterator[Fault]:
    """The faults, the gravest first. A metric that is not there is no fault.

    throttled: the share of the time.
    was_faulty: the threshold of throttling is lower for a device that is faulty already.
    """
    xid = int(values.get(XID, 0))
    if xid in policy.xids:
        yield Fault(f"xid-{xid}", f"the driver reports XID {xid}")
    if values.get(ROW_REMAP_FAILURE, 0) > 0:
        yield Fault("row-remap-failure", "a row of its memory could not be remapped")
    errors = values.get(UNCORRECTABLE_ERRORS, 0)
    if errors >= policy.uncorrectable_errors:
        yield Fault("ecc", f"{errors:g} uncorrectable ECC errors since its driver was loaded")
    if throttled >= policy.throttled_ratio * (LEAVE_RATIO if was_faulty else 1.0):
        yield Fault("throttled", f"throttled for {throttled:.0%} of the time by heat or its power supply")
