"""Unpacks the /proc and /sys of a host from one text file: tests/data/hosts/README.md."""

import re
from pathlib import Path

HOSTS = Path(__file__).parent / "data" / "hosts"


def unpack(text: str, root: Path) -> None:
    """Write the tree that a bundle describes."""
    for entry in re.split(r"^@ ", text, flags=re.MULTILINE)[1:]:
        head, _, body = entry.partition("\n")
        path, _, target = head.partition(" -> ")
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        if target:
            (root / path).symlink_to(target)
        elif path.endswith("/"):
            (root / path).mkdir(exist_ok=True)
        else:
            (root / path).write_text(body)
