"""Takes the rooms out of an environment that no agent imports, as a test compares: `python trim_agent.py FOLDER`."""

import shutil
import sys
from pathlib import Path

ROOMS = (
    "controller",
    "extender",
    "leadsman/cli/certs",
    "leadsman/cli/configure",
    "leadsman/cli/demo",
    "leadsman/cli/diagnosis",
    "leadsman/cli/evaluation",
    "leadsman/cluster",
    "leadsman/decision",
    "leadsman/planning",
    "leadsman/published",
    "leadsman/simulator",
    "leadsman/sources",
    "leadsman/testbed",
)


def main() -> None:
    (packages,) = Path(sys.argv[1]).glob("lib/python3*/site-packages")
    for room in ROOMS:
        shutil.rmtree(packages / room)


if __name__ == "__main__":
    main()
