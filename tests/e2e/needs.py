"""What this machine lacks for a real cluster, in one line."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

BINARIES_VARIABLE = "E2E_BIN"
BINARIES = ("kube-apiserver", "etcd", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "kubectl")
PROGRAMS = {
    "buildah": "buildah",
    "busybox": "busybox-static",
    "conntrack": "conntrack",
    "containerd": "containerd",
    "ip": "iproute2",
    "mmdebstrap": "mmdebstrap",
    "nft": "nftables",
    "nsenter": "util-linux",
    "runc": "runc",
}
"""Program → Debian package."""

CNI_FOLDER = Path("/usr/lib/cni")


class Missing(RuntimeError):
    """What is missing, and what would bring it."""


def find_binaries(environ: Mapping[str, str] = os.environ) -> Path:
    """The folder of Kubernetes' programs. Missing when it is not named, or something else is not there."""
    folder = environ.get(BINARIES_VARIABLE, "")
    if not folder:
        raise Missing(f"{BINARIES_VARIABLE} is not set: it names the folder of {', '.join(BINARIES)}")
    absent = [name for name in BINARIES if not Path(folder, name).is_file()]
    if absent:
        raise Missing(f"{BINARIES_VARIABLE}={folder}: there is no {', '.join(absent)} in it")
    packages = sorted({package for program, package in PROGRAMS.items() if not shutil.which(program)})
    packages += [] if (CNI_FOLDER / "bridge").is_file() else ["containernetworking-plugins"]
    if packages:
        raise Missing(f"apt-get install --no-install-recommends {' '.join(packages)}")
    if os.geteuid() != 0:
        raise Missing("only root can start nodes")
    return Path(folder)
