"""Leadsman on the cluster, step by step as docs/deploying.md has it."""

import shutil
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from tests.e2e.cluster import Cluster
from tests.e2e.images import ROOT

COMPONENTS = ("telemetry", "controller")
PARTS = ("daemonset/leadsman-agent", "deployment/leadsman-extender", "deployment/leadsman-controller")
AGENT_ONLY_NODE = "cloud-1"
NOTHING: Mapping[str, str] = MappingProxyType({})


class Rollout:
    """folder: the operator's: the overlay and the certificates."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self._cluster, self.folder = cluster, folder
        self._applied = set[str]()

    def install(self) -> None:
        """Certificates, the overlay, and kube-scheduler's configuration. One node gets no Deployment's pod."""
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(ROOT / "daemonset", self.folder / "daemonset")
        self.leadsman("certs", "create")
        self._cluster.kubectl("apply", "-f", f"{self.folder}/daemonset/base/namespace.yaml")
        self.apply_certificates()
        self._cluster.kubectl("cordon", AGENT_ONLY_NODE)
        self.apply(COMPONENTS)
        self._cluster.kubectl("uncordon", AGENT_ONLY_NODE)
        self._configure_scheduler()

    def apply(
        self,
        components: Sequence[str],
        settings: Mapping[str, str] = NOTHING,
        files: Mapping[str, Path] = MappingProxyType({}),
        patches: str = "",
    ) -> None:
        """The overlay with these components, in its order.

        settings: further ones of all parts.
        files: beside the policy, in /etc/leadsman of the extender and the controller.
        patches: lines of the overlay's field `patches`.
        """
        self._applied |= set(components)
        overlay = self._write_overlay(components)
        with (overlay / "kustomization.yaml").open("a") as file:
            file.write(f"patches:\n{patches}" if patches else "")
        base = self.folder / "daemonset/base"
        with (base / "settings.env").open("a") as file:
            file.writelines(f"{name}={value}\n" for name, value in settings.items())
        for name, path in files.items():
            shutil.copy(path, base / name)
        listed, kustomization = ", ".join(["policy.yaml", *files]), base / "kustomization.yaml"
        kustomization.write_text(kustomization.read_text().replace("[policy.yaml]", f"[{listed}]"))
        self._cluster.kubectl("apply", "-k", str(overlay))
        for what in PARTS:
            self.wait(what)

    def _write_overlay(self, components: Collection[str]) -> Path:
        shutil.copytree(ROOT / "daemonset", self.folder / "daemonset", dirs_exist_ok=True)
        overlay = self.folder / "daemonset/overlay"
        text = (overlay / "kustomization.yaml").read_text()
        for name in components:
            text = text.replace(f"  # - ../components/{name}\n", f"  - ../components/{name}\n")
        (overlay / "kustomization.yaml").write_text(text)
        return overlay

    def apply_certificates(self) -> None:
        self._cluster.kubectl("apply", "-f", "-", stdin=self.leadsman("certs", "secrets"))

    def update(self, what: str) -> None:
        """A rolling update, as a new image makes one."""
        self._cluster.kubectl("-n", "leadsman", "rollout", "restart", what)
        self.wait(what)

    def wait(self, what: str) -> None:
        self._cluster.kubectl("-n", "leadsman", "rollout", "status", what, "--timeout=300s")

    def remove(self) -> None:
        """As the docs' section Uninstall has it."""
        config = str(self._cluster.scheduler_config)
        self.leadsman("configure-scheduler", config, "--undo", "--backups", f"{self.folder}/backups")
        self._cluster.restart_scheduler()
        self._cluster.kubectl("delete", "taspolicies", "--all", "--all-namespaces")
        overlay = self._write_overlay(self._applied)
        self._cluster.kubectl("delete", "-k", str(overlay), "--ignore-not-found", "--timeout=300s")
        annotations = ("leadsman.dev/retried-at-", "leadsman.dev/telemetry-labels-")
        self._cluster.kubectl("annotate", "nodes", "--all", *annotations)

    def leadsman(self, *words: str) -> str:
        """What the command printed, run in the operator's folder."""
        command = [sys.executable, "-m", "leadsman.cli.main", *words]
        return subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=True).stdout

    def _configure_scheduler(self) -> None:
        service = ("-n", "leadsman", "get", "service", "leadsman-extender", "-o", "jsonpath={.spec.clusterIP}")
        url = f"https://{self._cluster.kubectl(*service)}:9001"
        certificates, backups = f"{self.folder}/leadsman-certs", f"{self.folder}/backups"
        places = ["--certs", certificates, "--config", f"{certificates}/scheduler.yaml", "--backups", backups]
        self.leadsman("configure-scheduler", str(self._cluster.scheduler_config), "--extender", url, *places)
        self._cluster.restart_scheduler()
