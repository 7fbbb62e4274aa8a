"""Runs a real kube-controller-manager beside a KubeApiServer, from the same folder of binaries.

    with KubeControllerManager(binaries, folder, api):
        ...

Deployments and ReplicaSets get their pods. All its controllers run, with the timings that it has by default.
"""

import subprocess
from pathlib import Path
from typing import Self

from leadsman.testbed.etcd import die_with_parent, free_ports
from tests.testbed.kube_apiserver import KubeApiServer, KubeApiServerMissing

BINARY = "kube-controller-manager"


class KubeControllerManager:
    """One kube-controller-manager, from entry to exit.

    binaries: the folder of kube-controller-manager; KubeApiServerMissing when it has none.
    folder: holds its log.
    """

    def __init__(self, binaries: Path, folder: Path, api: KubeApiServer) -> None:
        self._binary, self._folder, self._api = binaries / BINARY, folder, api
        if not self._binary.is_file():
            raise KubeApiServerMissing(f"KUBEBUILDER_ASSETS={binaries}: there is no {BINARY} in it")

    @property
    def log(self) -> Path:
        return self._folder / "kube-controller-manager.log"

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        flags = [
            f"--kubeconfig={self._api.kubeconfig()}",
            f"--service-account-private-key-file={self._api.folder / 'accounts.key'}",
            f"--root-ca-file={self._api.ca_file}",
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
            f"--secure-port={free_ports(1)[0]}",
            f"--cert-dir={self._folder / 'certificates'}",
            "--kube-api-qps=200",
            "--kube-api-burst=400",
        ]
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [str(self._binary), *flags], stdout=log, stderr=log, preexec_fn=die_with_parent
            )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
