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
from typing import Any

from tests.testbed.kube_apiserver import ADMIN_USER, KubeApiServer, KubeApiServerMissing
from tests.testbed.kube_component import KubeComponent


class KubeScheduler(KubeComponent):
    """extenders: of its configuration.
    preempts: whether it evicts pods of lower priority.
    configuration: in place of all these; without a kubeconfig, which is added.
    user: of the API server, whose rights it has.
    """

    program = "kube-scheduler"

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
        super().__init__(binaries, folder, api)
        self._given, self._kubeconfig, self._extenders = configuration, str(api.kubeconfig(user)), extenders
        self._disabled = [] if preempts else [{"name": "DefaultPreemption"}]

    def flags(self) -> Sequence[str]:
        config, minor = self.folder / "kube-scheduler.json", self.minor_version()
        config.write_text(json.dumps(self._configuration(minor)))
        return [
            f"--config={config}",
            f"--authentication-kubeconfig={self._kubeconfig}",
            f"--authorization-kubeconfig={self._kubeconfig}",
            "--authentication-skip-lookup=true",
            *(["--port=0"] if minor < 24 else []),
        ]

    def minor_version(self) -> int:
        """N of Kubernetes 1.N."""
        shown = subprocess.run([str(self.binary), "--version"], capture_output=True, text=True, check=True).stdout
        version = re.search(r"v1\.(\d+)", shown)
        if version is None:
            raise KubeApiServerMissing(f"{self.binary} --version printed {shown!r}, which names no version 1.x")
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
                {"schedulerName": "default-scheduler", "plugins": {"postFilter": {"disabled": self._disabled}}}
            ],
        }
