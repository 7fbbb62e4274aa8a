"""Runs a real kube-scheduler beside a KubeApiServer, from the same folder of binaries.

    with KubeScheduler(binaries, folder, api, extenders=[{"urlPrefix": url, "filterVerb": "filter"}]):
        ...

It places pods like one in a cluster, looks at every node, and preempts nobody unless asked to.
"""

import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from leadsman.testbed.etcd import die_with_parent, free_ports
from tests.testbed.kube_apiserver import ADMIN_USER, KubeApiServer, KubeApiServerMissing

BINARY = "kube-scheduler"


class KubeScheduler:
    """One kube-scheduler, from entry to exit.

    binaries: the folder of kube-scheduler; KubeApiServerMissing when it has none.
    folder: holds its configuration and its log.
    extenders: of its configuration.
    preempts: whether it evicts pods of lower priority.
    configuration: in place of all these; without a kubeconfig, which is added.
    user: of the API server, whose rights it has.
    """

    def __init__(
        self,
        binaries: Path,
        folder: Path,
        api: KubeApiServer,
        *,
        extenders: Sequence[Mapping[str, Any]] = (),
        preempts: bool = False,
        configuration: Mapping[str, Any] | None = None,
        user: str = ADMIN_USER,
    ) -> None:
        self._binary, self._folder, self._extenders = binaries / BINARY, folder, extenders
        self._given, self._kubeconfig = configuration, str(api.kubeconfig(user))
        self._disabled = [] if preempts else [{"name": "DefaultPreemption"}]
        if not self._binary.is_file():
            raise KubeApiServerMissing(f"KUBEBUILDER_ASSETS={binaries}: there is no {BINARY} in it")

    @property
    def log(self) -> Path:
        return self._folder / "kube-scheduler.log"

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        config = self._folder / "kube-scheduler.json"
        minor = self.minor_version()
        config.write_text(json.dumps(self._configuration(minor)))
        flags = [
            f"--config={config}",
            f"--authentication-kubeconfig={self._kubeconfig}",
            f"--authorization-kubeconfig={self._kubeconfig}",
            "--authentication-skip-lookup=true",
            "--bind-address=127.0.0.1",
            f"--secure-port={free_ports(1)[0]}",
            f"--cert-dir={self._folder / 'certificates'}",
            *(["--port=0"] if minor < 24 else []),
        ]
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [str(self._binary), *flags], stdout=log, stderr=log, preexec_fn=die_with_parent
            )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()

    def minor_version(self) -> int:
        """N of Kubernetes 1.N."""
        shown = subprocess.run([str(self._binary), "--version"], capture_output=True, text=True, check=True).stdout
        version = re.search(r"v1\.(\d+)", shown)
        if version is None:
            raise KubeApiServerMissing(f"{self._binary} --version printed {shown!r}, which names no version 1.x")
        return int(version[1])

    def _configuration(self, minor: int) -> Mapping[str, Any]:
        client = {"kubeconfig": self._kubeconfig, "qps": 1000, "burst": 1000}
        if self._given is not None:
            return {**self._given, "clientConnection": client}
        version = "v1" if minor >= 25 else "v1beta1"
        return {
            "apiVersion": f"kubescheduler.config.k8s.io/{version}",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": client,
            "leaderElection": {"leaderElect": False},
            "percentageOfNodesToScore": 100,
            "extenders": [*self._extenders],
            "profiles": [
                {
                    "schedulerName": "default-scheduler",
                    "plugins": {"postFilter": {"disabled": self._disabled}},
                }
            ],
        }
