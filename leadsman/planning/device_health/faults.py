"""What is wrong with a device, by the metrics of dcgm-exporter.

Names and meanings: github.com/NVIDIA/dcgm-exporter, etc/default-counters.csv, and DCGM's field identifiers
(dcgm_fields.h). XIDs: docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html.
"""

import math
from collections.abc import Iterator, Mapping

from msgspec import Struct

from leadsman.decision.policy import DeviceHealthPolicy

XID = "DCGM_FI_DEV_XID_ERRORS"
"""The last XID error; 0: none since the exporter started."""

ROW_REMAP_FAILURE = "DCGM_FI_DEV_ROW_REMAP_FAILURE"
UNCORRECTABLE_ERRORS = "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL"
"""Double-bit ECC errors since the driver was loaded."""

THROTTLE_REASONS = ("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", "DCGM_FI_DEV_CLOCKS_EVENT_REASONS")
"""Bits. DCGM 4 has the second, and the first as its deprecated name. The exporter exports neither by default."""

METRICS = (XID, ROW_REMAP_FAILURE, UNCORRECTABLE_ERRORS, *THROTTLE_REASONS)

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
