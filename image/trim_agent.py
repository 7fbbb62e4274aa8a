"""Removes from an environment the rooms that no agent imports, as a test compares: `python trim_agent.py FOLDER`."""

import shutil
import sys
from pathlib import Path

ROOMS = (
    "controller",
    "extender",
    "leadsman/cluster",
    "leadsman/decision",
    "leadsman/planning",
    "leadsman/published",
    "leadsman/simulator",
    "leadsman/sources",
    "leadsman/testbed",
)

COMMANDS_OF_AGENT = ("__init__.py", "main.py", "agent.py", "flags")
"""What stays of leadsman/cli."""


def main() -> None:
    (packages,) = Path(sys.argv[1]).glob("lib/python3*/site-packages")
    for room in ROOMS:
        shutil.rmtree(packages / room)
    for path in (packages / "leadsman/cli").iterdir():
        if path.name not in COMMANDS_OF_AGENT:
            shutil.rmtree(path) if path.is_dir() else path.unlink()


if __name__ == "__main__":
    main()
