"""Changes the files of a kube-scheduler so that it asks the extender.

    yaml_editing       YAML edited in place
    scheduler_config   what a KubeSchedulerConfiguration must hold
    scheduler_pod      what a kube-scheduler's pod must hold
    file_changes       the changes that follow for each file
    backup             files written, with copies to restore; the one module with I/O

A line that need not change stays as it is, byte for byte: comments, order, quotes and widths.
"""

from collections.abc import Mapping
from typing import Any

YamlPath = tuple[str | int, ...]
"""Keys and positions that lead to a node of a document."""


class ConfigureError(Exception):
    """The file cannot be changed safely. The text names the place and what to do."""


def value_at(data: Any, *path: str | int) -> Any:
    """The value at this path; None when there is none."""
    for step in path:
        if isinstance(step, str):
            data = data.get(step) if isinstance(data, Mapping) else None
        else:
            data = data[step] if isinstance(data, list) and step < len(data) else None
    return data
