"""Puts nodes first whose network is quiet.

Install it into an image FROM ours with an entry point (docs/plugins.md), and name it in the policy file:

    [project.entry-points."leadsman.scores"]
    quiet = "quiet:Quiet"
"""

from collections.abc import Mapping, Sequence

from leadsman.plugin import API_VERSION, Node, Pod

BUSY = 100e6
"""Bytes a second at which a node is busy."""


class Quiet:
    """Scores 1 for a node without traffic, 0 from BUSY on; only for pods labelled network=quiet."""

    api_version = API_VERSION

    def score(self, pod: Pod, nodes: Sequence[Node]) -> Mapping[str, float]:
        if pod.labels.get("network") != "quiet":
            return {}
        return {node.name: _quiet(node) for node in nodes if "network_receive_bytes_per_second" in node.hardware}


def _quiet(node: Node) -> float:
    return max(0.0, 1.0 - node.hardware["network_receive_bytes_per_second"] / BUSY)
