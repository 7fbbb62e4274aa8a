"""Leadsman on the cluster, step by step as docs/deploying.md has it."""

import shutil
import subprocess
import sys
from pathlib import Path

from tests.e2e.cluster import Cluster
from tests.e2e.images import ROOT

COMPONENTS = ("controller",)


class Rollout:
    """folder: the operator's: his overlay and his certificates."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self._cluster, self._folder = cluster, folder

    def apply(self) -> None:
        """Certificates, the overlay, and kube-scheduler told of the extender."""
        shutil.copytree(ROOT / "daemonset", self._folder / "daemonset", dirs_exist_ok=True)
        self._leadsman("certs", "create")
        self._cluster.kubectl("apply", "-f", f"{self._folder}/daemonset/base/namespace.yaml")
        self._cluster.kubectl("apply", "-f", "-", stdin=self._leadsman("certs", "secrets"))
        overlay = self._folder / "daemonset/overlay/kustomization.yaml"
        text = overlay.read_text()
        for name in COMPONENTS:
            text = text.replace(f"  # - ../components/{name}\n", f"  - ../components/{name}\n")
        overlay.write_text(text)
        self._cluster.kubectl("apply", "-k", str(overlay.parent))
        for what in ("daemonset/leadsman-agent", "deployment/leadsman-extender", "deployment/leadsman-controller"):
            self.wait(what)
        self._configure_scheduler()

    def update(self, what: str) -> None:
        """A rolling update, as a new image makes one."""
        self._cluster.kubectl("-n", "leadsman", "rollout", "restart", what)
        self.wait(what)

    def wait(self, what: str) -> None:
        self._cluster.kubectl("-n", "leadsman", "rollout", "status", what, "--timeout=180s")

    def _configure_scheduler(self) -> None:
        service = ("-n", "leadsman", "get", "service", "leadsman-extender", "-o", "jsonpath={.spec.clusterIP}")
        url = f"https://{self._cluster.kubectl(*service)}:9001"
        certificates, backups = f"{self._folder}/leadsman-certs", f"{self._folder}/backups"
        places = ["--certs", certificates, "--config", f"{certificates}/scheduler.yaml", "--backups", backups]
        self._leadsman("configure-scheduler", str(self._cluster.scheduler_config), "--extender", url, *places)
        self._cluster.restart_scheduler()

    def _leadsman(self, *words: str) -> str:
        command = [sys.executable, "-m", "leadsman.cli.main", *words]
        return subprocess.run(command, cwd=self._folder, capture_output=True, text=True, check=True).stdout
