"""What `leadsman configure-scheduler` does: from a kube-scheduler that does not know our extender to one that does.

Here live YAML edited in place (text), what a configuration and a pod must hold (config, pod), what follows for a file
(plan), and backups (backup). Everything but `backup` is pure. An operator's line that we do not change stays as it is,
byte for byte: comments, order, quotes and widths.
"""

from collections.abc import Mapping
from typing import Any

YamlPath = tuple[str | int, ...]
"""Keys and positions that lead to a node of a document."""


class ConfigureError(Exception):
    """The file is none that we can change rightly. The text names the place and what would help."""


def value_at(data: Any, *path: str | int) -> Any:
    """What stands there; None when nothing does."""
    for step in path:
        if isinstance(step, str):
            data = data.get(step) if isinstance(data, Mapping) else None
        else:
            data = data[step] if isinstance(data, list) and step < len(data) else None
    return data
