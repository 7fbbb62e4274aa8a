"""Measures the share of the node's file handles that are open.

Install it into an image FROM ours with an entry point, and start agents with `--plugins=files` (docs/plugins.md):

    [project.entry-points."leadsman.metrics"]
    files = "files:Files"

/metrics then shows leadsman_custom_files_used_ratio, and scores and filters may read
node.hardware["custom_files_used_ratio"].
"""

from collections.abc import Iterator
from pathlib import Path

from leadsman.plugin import API_VERSION, HostRoots, Sample, gauge

USED = gauge("used_ratio", "Share of the file handles that the kernel allows which are open.")


class Files:
    """Reads proc_sys_fs(5), file-nr: open, free (always 0), most."""

    api_version = API_VERSION

    def collect(self, roots: HostRoots) -> Iterator[Sample]:
        used, _, most = Path(roots.proc, "sys/fs/file-nr").read_text().split()
        yield USED(int(used) / int(most))
