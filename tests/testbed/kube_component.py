"""Runs one of the Kubernetes programs that work beside a KubeApiServer, from the same folder of binaries."""

import subprocess
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Self

from leadsman.testbed.etcd import die_with_parent, free_ports
from tests.testbed.kube_apiserver import KubeApiServer, KubeApiServerMissing


class KubeComponent(ABC):
    """One process, from entry to exit.

    binaries: the folder of its program; KubeApiServerMissing when it has none.
    folder: holds its log, and what its flags name.
    """

    program: ClassVar[str]

    def __init__(self, binaries: Path, folder: Path, api: KubeApiServer) -> None:
        self.binary, self.folder, self.api = binaries / self.program, folder, api
        if not self.binary.is_file():
            raise KubeApiServerMissing(f"KUBEBUILDER_ASSETS={binaries}: there is no {self.program} in it")

    @property
    def log(self) -> Path:
        return self.folder / f"{self.program}.log"

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        serving = ["--bind-address=127.0.0.1", f"--secure-port={free_ports(1)[0]}"]
        command = [str(self.binary), *self.flags(), *serving, f"--cert-dir={self.folder / 'certificates'}"]
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, preexec_fn=die_with_parent)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()

    @abstractmethod
    def flags(self) -> Sequence[str]:
        """Its own, once its folder is there."""


class KubeControllerManager(KubeComponent):
    """Deployments and ReplicaSets get their pods. All its controllers run, with the timings that it has by default."""

    program = "kube-controller-manager"

    def flags(self) -> Sequence[str]:
        return [
            f"--kubeconfig={self.api.kubeconfig()}",
            f"--service-account-private-key-file={self.api.folder / 'accounts.key'}",
            f"--root-ca-file={self.api.ca_file}",
            "--leader-elect=false",
            "--kube-api-qps=200",
            "--kube-api-burst=400",
        ]
