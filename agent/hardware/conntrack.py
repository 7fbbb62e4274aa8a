"""Connection tracking table. Source: docs.kernel.org/networking/nf_conntrack-sysctl.html

The kernel answers for the reader's own network namespace: the host's table only with hostNetwork.
"""

from collections.abc import Iterator

from agent.hardware.kernel_files import parse_file
from agent.hardware.samples import HostRoots, Sample, gauge

ENTRIES = gauge("nf_conntrack_entries", "Connections tracked.")
LIMIT = gauge("nf_conntrack_entries_limit", "Connections that can be tracked.")


def collect(roots: HostRoots) -> Iterator[Sample]:
    root = f"{roots.proc}/sys/net/netfilter"
    yield ENTRIES(parse_file(f"{root}/nf_conntrack_count", int))
    yield LIMIT(parse_file(f"{root}/nf_conntrack_max", int))
