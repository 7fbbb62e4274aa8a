"""A release, installed by its README by somebody who has its folder and nothing else."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.e2e.cluster import Cluster

MACHINES_FOLDER = "/etc/kubernetes/leadsman"
_PIP = "pip install "
MANIFEST = "/etc/kubernetes/manifests/kube-scheduler.yaml"


class Release:
    """What is in the release's folder, copied to `folder`, and its command line. The registry has its images."""

    def __init__(self, release: Path, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(release, folder)
        subprocess.run(["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"], cwd=folder, check=True)
        self._folder, self._environment = folder, folder.with_name("environment")
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(self._environment)], check=True)
        readme = (folder / "README.md").read_text()
        *_, self._commands = re.findall(r"```sh\n(.*?)```", readme.replace("\\\n", ""), re.DOTALL)
        for line in self._commands.splitlines():
            if line.startswith(_PIP):  # Now, because the cluster's network leads nowhere.
                self._run(line)

    @property
    def chart(self) -> Path:
        (chart,) = self._folder.glob("leadsman-*.tgz")
        return chart

    @property
    def program(self) -> Path:
        """The command line."""
        return self._environment / "bin/leadsman"

    def install(self, cluster: Cluster, operator: Path, values: str = "") -> None:
        """The README's last commands, but pip's. operator: its folder stands for the machine's. values: for Helm."""
        files = f"{operator}/leadsman-certs"
        scheduler = f"{cluster.scheduler_config} --config {files}/scheduler.yaml --backups {operator}/backups"
        commands = "\n".join(line for line in self._commands.splitlines() if not line.startswith(_PIP))
        commands = commands.replace(MANIFEST, f"{scheduler} --certs {files}").replace(MACHINES_FOLDER, files)
        self._run(
            commands.replace(" --wait", f" {values} --wait"),
            PATH=f"{self._environment / 'bin'}:{cluster.binaries}:{os.environ['PATH']}",
            KUBECONFIG=str(cluster.api.kubeconfig()),
        )

    def _run(self, commands: str, **variables: str) -> None:
        environ = os.environ | {"PATH": f"{self._environment / 'bin'}:{os.environ['PATH']}"} | variables
        environ.pop("PYTHONPATH", None)  # Of the checkout.
        words = ["bash", "-euc", commands]
        done = subprocess.run(words, capture_output=True, text=True, cwd=self._folder, env=environ, check=False)
        if done.returncode:
            raise RuntimeError(f"the README's commands: {done.stderr[-500:]}")
