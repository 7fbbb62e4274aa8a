"""`make image-test`: a release's files, and each process run from its images as in its pod.

    python -m tests.e2e.image_run [--folder DIR]

As root on Debian with buildah, mmdebstrap and helm. Each process has uid 10001, a root filesystem that it cannot
write, no capability, and none to gain. It must become ready and show its metrics. Exit status 1 when one does not.
"""

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import yaml

from leadsman.testbed.etcd import Etcd, die_with_parent, free_ports
from tests.dockerfile import environ_of
from tests.e2e.images import PYTHON_PACKAGES, RELEASE, ROOT, Images
from tests.testbed.scripted_api_server import ApiServerThread

UID = 10001
READY_WITHIN_SECONDS = 60.0
NODE = "edge-1"
IMAGES = (
    "image: gcr.io/etcd-development/etcd:unused\nimage: localhost/leadsman:test\nimage: localhost/leadsman-agent:test\n"
)
"""What the image is called here; no etcd is taken from it."""

_READ_ONLY = """
mount --bind "$0" "$0"
mount -o remount,bind,ro "$0"
mount -t proc proc "$0/proc"
mount --rbind /dev "$0/dev"
exec chroot "$0" "$@"
"""
_AS_IN_A_POD = (
    f"setpriv --reuid={UID} --regid={UID} --clear-groups --bounding-set=-all --inh-caps=-all --no-new-privs".split()
)
_NOTHING_GAINED = {"Uid": f"{UID}", "CapPrm": "0" * 16, "CapEff": "0" * 16, "CapBnd": "0" * 16, "NoNewPrivs": "1"}


class NotAsInAPod(RuntimeError):
    """A process did not become ready, or may do what it may not do in its pod."""


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="make image-test", description="The image, and each process run from it.")
    parser.add_argument("--folder", type=Path, help="where the base stays; a second run with it is quicker")
    if folder := parser.parse_args(arguments).folder:
        _run_all(folder)
    else:
        with tempfile.TemporaryDirectory(prefix="leadsman-image-") as temporary:
            _run_all(Path(temporary))
    return 0


def _run_all(folder: Path) -> None:
    began = time.monotonic()
    with Images(folder, IMAGES, PYTHON_PACKAGES).released() as (project, agent):
        _say(f"a release made, its images twice with the same digests, in {time.monotonic() - began:.0f} s")
        _renders_the_chart()
        _refuses_writes(project)
        _runs_the_hook(project)
        with Etcd(folder / "etcd") as etcd, ApiServerThread() as api:
            api.put(f"/api/v1/nodes/{NODE}", {"metadata": {}})
            for name, (flags, port) in _processes(etcd.client_url, api.url).items():
                root, target = (agent, "agent") if name == "agent" else (project, "")
                with _run(root, environ_of(target), folder / f"{name}.log", name, *flags) as process:
                    _check(process, port, folder / f"{name}.log")
                _say(f"{name}: ready, with metrics, as uid {UID}, on a read-only root, without capabilities")


def _processes(etcd: str, api: str) -> Mapping[str, tuple[list[str], int]]:
    """Command → its flags, and the port of its metrics."""
    agent, extender, ops, controller = free_ports(4)
    follows = [f"--etcd={etcd}", f"--kube-api={api}"]
    pod = [f"--node-name={NODE}", "--address=127.0.0.1", "--owner=uid-1"]
    listens = [f"--listen=127.0.0.1:{extender}", f"--ops-listen=127.0.0.1:{ops}", "--api-listen=127.0.0.1:0"]
    return {
        "agent": ([*pod, *follows, f"--listen=127.0.0.1:{agent}", f"--tcp-port={agent}"], agent),
        "extender": ([*follows, "--plain-http", *listens], ops),
        "controller": ([*follows, f"--listen=127.0.0.1:{controller}"], controller),
    }


@contextlib.contextmanager
def _run(root: Path, environ: Mapping[str, str], log: Path, *command: str) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as file:
        process = subprocess.Popen(
            _inside(root, "leadsman", *command),
            env=os.environ | environ,
            stdout=file,
            stderr=file,
            preexec_fn=die_with_parent,
        )
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def _inside(root: Path, *command: str) -> list[str]:
    """The command, in the image, in a mount namespace of its own."""
    private = ["unshare", "--mount", "--propagation=private", "sh", "-ec", _READ_ONLY, str(root)]
    return [*private, "env", "PATH=/opt/leadsman/bin:/usr/bin:/bin", *_AS_IN_A_POD, *command]


def _renders_the_chart() -> None:
    """Repacked for the same bytes each time, still a chart, and its images are those of the release."""
    (chart,) = RELEASE.glob("leadsman-*.tgz")
    done = subprocess.run(["helm", "template", chart], capture_output=True, text=True, check=False)
    if "kind: DaemonSet" not in done.stdout:
        raise NotAsInAPod(f"helm template {chart}: {done.stderr}")
    for image in (RELEASE / "IMAGES").read_text().split():
        if f"/{image}\n" not in done.stdout:
            raise NotAsInAPod(f"helm template {chart}: no object has the image {image}")


def _refuses_writes(root: Path) -> None:
    """Else the test would show nothing: the root is read-only for root too."""
    private = _inside(root)[: -len(_AS_IN_A_POD)]
    done = subprocess.run([*private, "touch", "/written"], capture_output=True, text=True, check=False)
    if "Read-only file system" not in done.stderr:
        raise NotAsInAPod(f"touch on the image's root: {done.stderr or 'it was written'}")


def _runs_the_hook(root: Path) -> None:
    """What the extender's pod has kubelets run before SIGTERM: it is the image's program."""
    workload, *_ = yaml.safe_load_all((ROOT / "daemonset/base/extender.yaml").read_text())
    (container,) = workload["spec"]["template"]["spec"]["containers"]
    program, _ = container["lifecycle"]["preStop"]["exec"]["command"]
    done = subprocess.run(_inside(root, program, "0"), capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotAsInAPod(f"preStop: {program}: {done.stderr}")


def _check(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + READY_WITHIN_SECONDS
    while not _get(port, "/readyz"):
        if process.poll() is not None or time.monotonic() > deadline:
            raise NotAsInAPod(f"not ready within {READY_WITHIN_SECONDS:g} s:\n{log.read_text()[-2000:]}")
        time.sleep(0.2)
    if "leadsman_" not in _get(port, "/metrics"):
        raise NotAsInAPod("/metrics shows none of Leadsman's")
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    status = {name: value.split()[0] for name, _, value in (line.partition(":") for line in lines) if value.split()}
    gained = {name: status[name] for name, value in _NOTHING_GAINED.items() if status[name] != value}
    if gained:
        raise NotAsInAPod(f"the process has {gained}, and {_NOTHING_GAINED} was asked for")


def _get(port: int, path: str) -> str:
    """ "": it does not answer, or with another status than 200."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=2) as answer:
            text: str = answer.read().decode()
    except OSError:
        return ""
    return text


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
