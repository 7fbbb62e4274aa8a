"""Keeps pods with the label tier=critical off nodes whose memory had errors that ECC could not mend.

Install it into an image FROM ours with an entry point (docs/plugins.md), and name it in the policy file:

    [project.entry-points."leadsman.filters"]
    ecc = "ecc:Ecc"
"""

from collections.abc import Mapping, Sequence

from leadsman.plugin import API_VERSION, PASS, Node, Pod

ERRORS = "edac_uncorrectable_errors"


class Ecc:
    """Refuses such nodes; while it gives no answer, all nodes pass."""

    api_version = API_VERSION
    on_failure = PASS

    def refuse(self, pod: Pod, nodes: Sequence[Node]) -> Mapping[str, str]:
        if pod.labels.get("tier") != "critical":
            return {}
        return {node.name: "the node's memory had uncorrectable errors" for node in nodes if node.hardware.get(ERRORS)}
