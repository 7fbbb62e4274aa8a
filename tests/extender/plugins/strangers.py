"""Plugins that do what plugins must not. Run in processes of their own only."""

import math
import os
import socket
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from leadsman.plugin import Node, Pod


class Good:
    api_version = 1

    def score(self, pod: Pod, nodes: Sequence[Node]) -> Mapping[str, float]:
        return {node.name: node.hardware["load1_per_cpu"] for node in nodes if node.fresh}


class Loops(Good):
    def score(self, pod: Pod, nodes: Sequence[Node]) -> Mapping[str, float]:
        while True:
            pass


class Sleeps(Good):
    def score(self, pod: Pod, nodes: Sequence[Node]) -> Mapping[str, float]:
        time.sleep(1.0)
        return {}


class Exits(Good):
    def score(self, pod: Pod, nodes: Sequence[Node]) -> Mapping[str, float]:
        os._exit(3)


class Eats(Good):
    def score(self, pod: Pod, nodes: Sequence[Node]) -> Mapping[str, float]:
        return {"eaten": float(len(bytearray(1 << 30)))}


class NaN(Good):
    def score(self, pod: Pod, nodes: Sequence[Node]) -> Mapping[str, float]:
        return dict.fromkeys((node.name for node in nodes), math.nan)


class Infinite(Good):
    def score(self, pod: Pod, nodes: Sequence[Node]) -> Mapping[str, float]:
        return dict.fromkeys((node.name for node in nodes), math.inf)


class Raises(Good):
    def score(self, pod: Pod, nodes: Sequence[Node]) -> Mapping[str, float]:
        raise RuntimeError("a stranger's fault")


class Garbage(Good):
    def score(self, pod: Pod, nodes: Sequence[Node]) -> Mapping[str, float]:
        for name in os.listdir("/proc/self/fd"):
            if os.path.exists(f"/proc/self/fd/{name}") and "socket" in os.readlink(f"/proc/self/fd/{name}"):
                socket.socket(fileno=os.dup(int(name))).sendall(b"garbage" * 100)
        return {}


class Looks(Good):
    """Writes what it sees of the process into the file that the pod names."""

    def score(self, pod: Pod, nodes: Sequence[Node]) -> Mapping[str, float]:
        paths = [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd") if int(name) > 2]
        descriptors = [os.readlink(path) for path in paths if os.path.lexists(path)]
        oom = Path("/proc/self/oom_score_adj").read_text().strip()
        Path(pod.labels["file"]).write_text(f"{sorted(os.environ)}\n{descriptors}\n{oom}")
        return {}


class Old(Good):
    api_version = 0


class Even:
    api_version = 1
    on_failure = "pass"

    def refuse(self, pod: Pod, nodes: Sequence[Node]) -> Mapping[str, str]:
        return {node.name: "an odd node" for node in nodes if int(node.name.rpartition("-")[2]) % 2}


class Open(Even):
    def refuse(self, pod: Pod, nodes: Sequence[Node]) -> Mapping[str, str]:
        raise RuntimeError("a stranger's fault")


class Closed(Open):
    on_failure = "refuse"


class Silent(Closed):
    def refuse(self, pod: Pod, nodes: Sequence[Node]) -> Mapping[str, str]:
        return dict.fromkeys((node.name for node in nodes), " ")


class Dozes(Even):
    """Passes on failure, and is always late."""

    def refuse(self, pod: Pod, nodes: Sequence[Node]) -> Mapping[str, str]:
        time.sleep(1.0)
        return {}


class Both(Good, Even):
    pass


class Strict(Even):
    """Answers at once, and refuses on failure."""

    on_failure = "refuse"


class Elsewhere(Good):
    def score(self, pod: Pod, nodes: Sequence[Node]) -> Mapping[str, float]:
        return {"nobody-asked": 1.0}


class Forks(Good):
    """Leaves a process behind and does not answer. The first one's number is in the file that the pod names."""

    def score(self, pod: Pod, nodes: Sequence[Node]) -> Mapping[str, float]:
        child = os.fork()
        if child and not Path(pod.labels["file"]).exists():
            Path(pod.labels["file"]).write_text(str(child))
        time.sleep(3600.0)
        return {}
