"""All rows by name: importing the modules that define them adds them."""

from tests.torture import control_plane_faults, etcd_faults, hostile, node_faults
from tests.torture.rows import ROWS

__all__ = ["ROWS", "control_plane_faults", "etcd_faults", "hostile", "node_faults"]
