"""Models devices as drivers publish them and as monitoring reads them: what device health is judged by."""

from collections.abc import Mapping

from msgspec import Struct

XID = "DCGM_FI_DEV_XID_ERRORS"
"""The last XID error; 0: none since the exporter started."""

ROW_REMAP_FAILURE = "DCGM_FI_DEV_ROW_REMAP_FAILURE"
UNCORRECTABLE_ERRORS = "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL"
"""Double-bit ECC errors since the driver was loaded."""

THROTTLE_REASONS = ("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", "DCGM_FI_DEV_CLOCKS_EVENT_REASONS")
"""Bits. DCGM 4 has the second, and the first as its deprecated name. The exporter exports neither by default."""

METRICS = (XID, ROW_REMAP_FAILURE, UNCORRECTABLE_ERRORS, *THROTTLE_REASONS)
"""Names and meanings: github.com/NVIDIA/dcgm-exporter, etc/default-counters.csv; dcgm_fields.h."""


class DraDevice(Struct, frozen=True, order=True):
    """A device as a DRA driver publishes it. Raises ValueError when a part is empty.

    In the selector of a DeviceTaintRule a part that is left out matches everything.
    """

    driver: str
    pool: str
    device: str

    def __post_init__(self) -> None:
        if not (self.driver and self.pool and self.device):
            raise ValueError(f"driver {self.driver!r}, pool {self.pool!r} and device {self.device!r} must not be empty")


class DeviceReading(Struct, frozen=True):
    """Says what monitoring last read of one device.

    node: that it is in.
    values: metric → value, by the names of dcgm-exporter.
    read_at: monotonic seconds.
    """

    node: str
    values: Mapping[str, float]
    read_at: float
