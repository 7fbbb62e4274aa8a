"""`leadsman` with its objects by type in FILE at SIGUSR1: `python -m benchmarks.counting_agent FILE agent …`."""

import gc
import json
import signal
import sys
from collections import Counter
from pathlib import Path
from types import FrameType

from leadsman.cli.main import main as leadsman


def main(file: Path, words: list[str]) -> int:
    """Imports are not counted: an agent takes them out of the collector's sight before it runs."""

    def write(_: int, __: FrameType | None) -> None:
        gc.collect()
        counts = Counter(f"{type(each).__module__}.{type(each).__qualname__}" for each in gc.get_objects())
        part = file.with_suffix(".part")
        part.write_text(json.dumps(counts))
        part.rename(file)

    signal.signal(signal.SIGUSR1, write)
    return leadsman(words)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
