"""docs/tutorial.md, walked to its end: the commands of its blocks as they stand, on nodes that are called otherwise.

The cluster is there, its nodes have the images, and the command line runs: those commands are passed over. The 20 ms,
which the page makes by netem, are made by a TUN device that holds back the ICMP that the node and its pods send.
"""

import contextlib
import os
import re
import select
import shutil
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path

from leadsman.testbed import namespaces
from leadsman.testbed.forwarder import open_tun
from tests.e2e.chart import delete_release
from tests.e2e.cluster import Cluster
from tests.e2e.images import ROOT
from tests.e2e.node import Node
from tests.e2e.rollout import Rollout

PAGE = ROOT / "docs/tutorial.md"
NODES = {"control-plane": "edge-1", "worker": "edge-2", "worker2": "edge-3", "worker3": "cloud-1"}
"""Name on the page, after `leadsman-` → name here."""

HERE_ALREADY = ("kind ", "docker build ", "python3 -m venv ", ".venv/bin/pip ", "export PATH")
INSTALLS = ("helm install ", "kubectl -n leadsman rollout ")
SEEN = (
    ("kubectl leadsman nodes", r"(?s)(fresh.*){4}"),
    ("kubectl leadsman delay ", r"measured +0\.\d+ "),
    ("kubectl leadsman delay ", SLOW := r"(?s)(measured +2\d[. ].*){2}"),
    ("kubectl get pods -l app=web ", r"(?s)^(?!.*cloud-1)(.*Running){4}"),
    ("kubectl leadsman explain ", r"cloud-1 .*refused"),
    ("kubectl get events ", r"BoundKept"),
    ("kubectl get events ", r"BoundWaiting"),
    ("kubectl rollout status deployment/web", r"successfully rolled out"),
)
"""What commands show, by their beginnings and in the page's order, by now or within PATIENCE_SECONDS."""

PATIENCE_SECONDS = 90.0
SLOWER_SECONDS = 0.020


def install(rollout: Rollout) -> None:
    """The page's second step."""
    shutil.rmtree(rollout.folder, ignore_errors=True)
    rollout.folder.mkdir(parents=True)
    for command in _commands():
        if command.startswith(INSTALLS):
            _run(rollout, command)


def remove(rollout: Rollout) -> str:
    """What the page leaves to `kind delete cluster`. Says what `leadsman uninstall` had to delete, by kind."""
    rollout.cluster.kubectl("delete", "deployment", "web", "--ignore-not-found")
    delete_release(rollout.cluster)
    return rollout.uninstall()


def walk(cluster: Cluster, rollout: Rollout) -> str:
    """The steps from the third on. Says how many commands were run."""
    slow = next(node for node in cluster.nodes if node.name == NODES["worker3"])
    seen, ran = list(SEEN), 0
    with contextlib.ExitStack() as slowed:
        for command in _commands():
            if command.startswith((*HERE_ALREADY, *INSTALLS)):
                continue
            ran += 1
            if " tc qdisc add " in command:
                slowed.enter_context(slower(slow))
                for other in set(NODES.values()) - {slow.name}:  # Within half a minute, a reader's next steps.
                    run_until(rollout, f"kubectl leadsman delay {other} {slow.name}", SLOW)
            elif " tc qdisc del " in command:
                slowed.close()
            elif seen and command.startswith(seen[0][0]):
                run_until(rollout, command, seen.pop(0)[1])
            else:
                _run(rollout, command, check=not command.endswith("doctor"))  # It finds that nobody has asked yet.
    if seen:
        raise RuntimeError(f"the page no longer has {seen[0][0]!r}")
    return f"{ran} commands from its third step on, each as the page says"


def _commands() -> Iterator[str]:
    """The page's commands, with the names of the nodes here."""
    for block in re.findall(r"```sh\n(.*?)```", PAGE.read_text(), re.DOTALL):
        yield from map(_with_nodes, block.splitlines())


def _with_nodes(text: str) -> str:
    return re.sub(r"leadsman-(control-plane|worker[23]?)\b", lambda found: NODES[found[1]], text)


def run_until(rollout: Rollout, command: str, pattern: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not re.search(pattern, said := _run(rollout, command, check=False)):
        if time.monotonic() > deadline:
            raise RuntimeError(f"{command}: no {pattern!r} in\n{said}")
        time.sleep(1.0)


def _run(rollout: Rollout, command: str, check: bool = True) -> str:
    """Its output. Files of the repository that name nodes are read from copies that name those here."""
    for path in re.findall(r"\S+\.yaml", command):
        copy = rollout.folder / Path(path).name
        copy.write_text(_with_nodes((ROOT / path).read_text()))
        command = command.replace(path, str(copy))
    folders = f"{rollout.cluster.binaries}:{Path(sys.executable).parent}"
    environ = os.environ | {
        "KUBECONFIG": str(rollout.cluster.api.kubeconfig()),
        "PATH": f"{folders}:{os.environ['PATH']}",
    }
    words = ["bash", "-c", command]
    done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT, env=environ, check=False)
    if check and done.returncode:
        raise RuntimeError(f"{command}: {done.stdout}{done.stderr}")
    return done.stdout


@contextlib.contextmanager
def slower(node: Node) -> Iterator[None]:
    """Holds back each ICMP packet that leaves the node."""
    with namespaces.inside(node.netns):
        tun = open_tun("slower")
        for name, value in {"accept_local": "1", "rp_filter": "0"}.items():
            Path("/proc/sys/net/ipv4/conf/slower", name).write_text(value)
        namespaces.configure([*_rules("add"), "link set slower up", "route add default dev slower table 77"])
    stop = threading.Event()
    thread = threading.Thread(target=_hold_back, args=(tun, stop), daemon=True)
    thread.start()
    try:
        yield
    finally:
        with namespaces.inside(node.netns):
            namespaces.configure(_rules("del"))
        stop.set()
        thread.join()
        os.close(tun)


def _rules(verb: str) -> Sequence[str]:
    """What the node and its pods send goes to the device by these, and comes back as if to be forwarded."""
    return [f"rule {verb} iif {name} ipproto icmp lookup 77" for name in ("lo", "cni0")]


def _hold_back(tun: int, stop: threading.Event) -> None:
    held = deque[tuple[float, bytes]]()
    while not stop.is_set():
        wait = held[0][0] - time.monotonic() if held else 0.1
        if select.select([tun], [], [], max(0.0, wait))[0]:
            held.append((time.monotonic() + SLOWER_SECONDS, os.read(tun, 65_535)))
        while held and held[0][0] <= time.monotonic():
            os.write(tun, held.popleft()[1])
