"""`leadsman` that writes its objects by type and its allocators' figures to FILE at SIGUSR1.

python -m benchmarks.counting_agent FILE agent …
"""

import gc
import signal
import sys
from collections import Counter
from pathlib import Path
from types import FrameType

import msgspec

from benchmarks.process_memory import Allocated, own_allocations
from leadsman.cli.main import main as leadsman


class Counts(msgspec.Struct, frozen=True):
    """objects: by type, those that the garbage collector follows."""

    objects: dict[str, int]
    allocated: Allocated


def main(file: Path, words: list[str]) -> int:
    """Imports are not counted: an agent takes them out of the collector's sight before it runs. Garbage is."""

    def write(_: int, __: FrameType | None) -> None:
        allocated = own_allocations()
        objects = Counter(f"{type(each).__module__}.{type(each).__qualname__}" for each in gc.get_objects())
        part = file.with_suffix(".part")
        part.write_bytes(msgspec.json.encode(Counts(objects, allocated)))
        part.rename(file)

    signal.signal(signal.SIGUSR1, write)
    return leadsman(words)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
