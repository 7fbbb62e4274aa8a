"""All rows by name: importing the modules that define them adds them."""

from tests.torture import faults, hostile
from tests.torture.rows import ROWS

__all__ = ["ROWS", "faults", "hostile"]
