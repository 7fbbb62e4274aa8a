"""Connection tracking table. Source: docs.kernel.org/networking/nf_conntrack-sysctl.html

The kernel answers for the reader's own network namespace, whichever /proc is read: the host's table only with
hostNetwork. Elsewhere there is no value, because a pod's table is not the node's.
"""

from collections.abc import Iterator

from agent.hardware.kernel_files import parse_file
from agent.hardware.samples import HostRoots, NoData, Sample, gauge

ENTRIES = gauge("nf_conntrack_entries", "Connections tracked.")
LIMIT = gauge("nf_conntrack_entries_limit", "Connections that can be tracked.")


def collect(roots: HostRoots) -> Iterator[Sample]:
    if roots.own_network:
        raise NoData("the agent's network namespace is not the node's, whose table only hostNetwork shows")
    root = f"{roots.proc}/sys/net/netfilter"
    yield ENTRIES(parse_file(f"{root}/nf_conntrack_count", int))
    yield LIMIT(parse_file(f"{root}/nf_conntrack_max", int))
