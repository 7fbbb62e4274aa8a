"""Rewards nodes by how long a pod takes to accept a connection, for pods that name their port.

Install it into an image FROM ours with an entry point, and start agents with `--plugins=connect` (docs/plugins.md):

    [project.entry-points."leadsman.rewards"]
    connect = "connect:Connect"

Pods then prefer nodes on which pods of their type answered quickly.
"""

import socket
import time
from collections.abc import Mapping

from leadsman.plugin import API_VERSION, RunningPod

PORT_ANNOTATION = "example.com/connect-port"


class Connect:
    """Measures seconds until a TCP connection stands. No answer in 1 s raises, and changes nothing."""

    api_version = API_VERSION

    def costs(self, pod: RunningPod) -> Mapping[str, float]:
        port = pod.annotations.get(PORT_ANNOTATION)
        if port is None or not pod.address:
            return {}
        began = time.perf_counter()
        with socket.create_connection((pod.address, int(port)), timeout=1.0):
            return {"connect_seconds": time.perf_counter() - began}
