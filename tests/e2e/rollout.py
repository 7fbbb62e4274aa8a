"""Leadsman on the cluster, step by step as docs/deploying.md has it."""

import json
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from tests.e2e.cluster import Cluster
from tests.e2e.images import ROOT
from tests.e2e.released import Release

COMPONENTS = ("telemetry", "controller")
AGENT_ONLY_NODE = "cloud-1"
ROLLED_WITHIN = "--timeout=600s"
NOTHING: Mapping[str, str] = MappingProxyType({})


class Rollout:
    """folder: the operator's: the overlay and the certificates.

    release: what is installed instead of the checkout. deaths: how many a row counts that is about them.
    """

    def __init__(self, cluster: Cluster, folder: Path, release: Release | None = None, deaths: int = 3) -> None:
        self.cluster, self.folder, self.release, self.deaths = cluster, folder, release, deaths
        self.chart = release.chart if release else ROOT / "charts/leadsman"
        self._applied = set[str]()
        self.ignorable = True

    def install(self) -> None:
        """Certificates, the overlay, and kube-scheduler's configuration."""

        def deploy() -> None:
            self.leadsman("certs", "create")
            self.apply_certificates()
            self.apply(COMPONENTS)

        self.install_with(deploy)

    def install_with(self, deploy: Callable[[], object]) -> None:
        """The steps before and after `deploy`, which leaves kube-scheduler's files in the folder. One node gets no
        Deployment's pod."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        if not self.release:  # Helm creates it, by the release's README.
            self.cluster.kubectl("apply", "-f", f"{ROOT}/daemonset/base/namespace.yaml")
        self.cluster.kubectl("cordon", AGENT_ONLY_NODE)
        try:
            deploy()
        finally:
            self.cluster.kubectl("uncordon", AGENT_ONLY_NODE)
        self.configure_scheduler()

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
            patches += _settings(settings) if settings else ""
            file.write(f"patches:\n{patches}" if patches else "")
        base = self.folder / "daemonset/base"
        for name, path in files.items():
            shutil.copy(path, base / name)
        listed, kustomization = ", ".join(["policy.yaml", *files]), base / "kustomization.yaml"
        kustomization.write_text(kustomization.read_text().replace("[policy.yaml]", f"[{listed}]"))
        self.cluster.kubectl("apply", "-k", str(overlay))
        self.wait_for_all()

    def _write_overlay(self, components: Collection[str]) -> Path:
        """The overlay with these components uncommented; a profile's name chooses the profile."""
        shutil.copytree(ROOT / "daemonset", self.folder / "daemonset", dirs_exist_ok=True)
        overlay = self.folder / "daemonset/overlay"
        kustomization = overlay / "kustomization.yaml"
        text = kustomization.read_text()
        for profile in (each for each in ("controller", "self-healing") if each in components):
            text = text.replace(
                f"../profiles/{'bounds' if profile == 'controller' else 'controller'}", f"../profiles/{profile}"
            )
        for name in components:
            text = text.replace(f"  # - ../components/{name}\n", f"  - ../components/{name}\n")
        kustomization.write_text(text)
        return overlay

    def apply_certificates(self) -> None:
        self.cluster.kubectl("apply", "-f", "-", stdin=self.leadsman("certs", "secrets"))

    def fetch_certificates(self) -> None:
        """Takes the files that a job of the chart made for kube-scheduler, as the chart's notes have it."""
        (self.folder / "leadsman-certs").mkdir()
        for name, file in {"ca.crt": "ca.crt", "tls.crt": "client.crt", "tls.key": "client.key"}.items():
            template = f'go-template={{{{index .data "{name}" | base64decode}}}}'
            secret = ("-n", "leadsman", "get", "secret", "leadsman-scheduler-tls", "-o", template)
            (self.folder / "leadsman-certs" / file).write_text(self.cluster.kubectl(*secret))

    def update(self, what: str) -> None:
        """A rolling update, as a new image makes one."""
        self.cluster.kubectl("-n", "leadsman", "rollout", "restart", what)
        self.wait(what)

    def blind(self) -> None:
        """Takes all agents away, and what extenders remember of their reports."""
        patch = {"spec": {"template": {"spec": {"nodeSelector": {"kubernetes.io/hostname": "none"}}}}}
        self.cluster.kubectl("-n", "leadsman", "patch", "daemonset/leadsman-agent", "-p", json.dumps(patch))
        self.wait_for_all()
        self.cluster.kubectl("-n", "leadsman", "delete", "pods", "-l", "app.kubernetes.io/component in (etcd,extender)")
        self.wait_for_all()

    def wait(self, what: str) -> None:
        self.cluster.kubectl("-n", "leadsman", "rollout", "status", what, ROLLED_WITHIN)

    def wait_for_all(self) -> None:
        for what in self.parts():
            self.wait(what)

    def parts(self) -> Sequence[str]:
        """The workloads that are there, as kubectl names them."""
        listed = self.cluster.kubectl("-n", "leadsman", "get", "daemonset,deployment,statefulset", "-o", "name")
        return [name.replace(".apps/", "/") for name in listed.split()]

    def remove(self) -> str:
        """As the docs' section Uninstall has it. Says what `leadsman uninstall` had to delete, by kind."""

        def delete() -> None:
            self.cluster.kubectl("delete", "taspolicies", "--all", "--all-namespaces")
            overlay = self._write_overlay(self._applied)
            self.cluster.kubectl("delete", "-k", str(overlay), "--ignore-not-found", "--timeout=300s")

        return self.remove_with(delete)

    def remove_with(self, delete: Callable[[], None]) -> str:
        """The steps before and after `delete`."""
        config = str(self.cluster.scheduler_config)
        self.leadsman("configure-scheduler", config, "--undo", "--backups", f"{self.folder}/backups")
        self.cluster.restart_scheduler()
        delete()
        return self.uninstall()

    def uninstall(self) -> str:
        """Says what `leadsman uninstall` had to delete, by kind."""
        access = ("uninstall", "--kubeconfig", str(self.cluster.api.kubeconfig()))
        table = self.leadsman(*access, "--delete").splitlines()
        kinds = Counter(line.split()[0] for line in table[1:])
        return ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items())) or "nothing"

    def leadsman(self, *words: str) -> str:
        """What the command printed, run in the operator's folder. RuntimeError with what it said when it failed."""
        checkout = [sys.executable, "-m", "leadsman.cli.main"]
        program = ["env", "-u", "PYTHONPATH", str(self.release.program)] if self.release else checkout
        command = [*program, *words]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"leadsman {' '.join(words)}: {done.stderr or done.stdout}")
        return done.stdout

    def knows_all_delays(self) -> bool:
        """Tells whether every pair of nodes is measured: a node's first report may come before its first round trip."""
        seen = json.loads(self.leadsman("state", "-o", "json", "--kubeconfig", str(self.cluster.api.kubeconfig())))
        nodes = len(self.cluster.nodes)
        return bool(seen["overview"]["pairs"]["measured"] == nodes * (nodes - 1) // 2)

    def was_unknown(self, pod: str, uid: str, node: str) -> bool:
        """Whether the extender that decided on a pod of namespace default did not know the node's delay then."""
        access = ("-n", "default", "-o", "json", "--kubeconfig", str(self.cluster.api.kubeconfig()))
        try:
            found = json.loads(self.leadsman("explain", pod, *access))
        except RuntimeError:  # It is gone, and its decisions with it.
            return False
        if found["explanation"]["uid"] != uid:  # An earlier pod of that name.
            return False
        (seen,) = (each for each in found["explanation"]["nodes"] if each["node"] == node)
        return bool(seen["distances"]) and all(each["rtt_ms"] is None for each in seen["distances"])

    def configure_scheduler(self, ignorable: bool = True) -> None:
        """As at the installation. ignorable: whether pods are bound unchecked while no extender answers."""
        self.ignorable = ignorable
        service = ("-n", "leadsman", "get", "service", "leadsman-extender", "-o", "jsonpath={.spec.clusterIP}")
        url = f"https://{self.cluster.kubectl(*service)}:9001"
        certificates, backups = f"{self.folder}/leadsman-certs", f"{self.folder}/backups"
        places = ["--certs", certificates, "--config", f"{certificates}/scheduler.yaml", "--backups", backups]
        choice = ["--ignorable", "true" if ignorable else "false"]
        self.leadsman("configure-scheduler", str(self.cluster.scheduler_config), "--extender", url, *places, *choice)
        self.cluster.restart_scheduler()


def _settings(settings: Mapping[str, str]) -> str:
    """A patch of the overlay's: what components have set counts less."""
    operations = [{"op": "add", "path": f"/data/{name}", "value": value} for name, value in settings.items()]
    return (
        f"  - target: {{kind: ConfigMap, name: leadsman-settings}}\n    patch: {json.dumps(json.dumps(operations))}\n"
    )
