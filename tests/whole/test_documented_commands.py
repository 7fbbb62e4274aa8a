"""Every shell block of every page runs as it stands, and every `kubectl …` in its prose, on a real kube-apiserver.

Needs KUBEBUILDER_ASSETS, kubectl and root: a block has an /etc and a /var of its own. Beside the API server run a real
kube-controller-manager, which makes the pods, and etcd, agents and an extender on this machine. What is not here:
machines, an image registry and kubelets. Their programs do nothing (AWAY), and a command that asks a kubelet ends well
where the API server has found pod and container and then no node (NO_KUBELET).
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from leadsman.cli.demo import scheduler_request
from leadsman.cli.main import main
from leadsman.testbed.etcd import Etcd
from tests.docs.test_docs import ROOT, documents
from tests.testbed.kube_apiserver import KubeApiServer, KubeApiServerMissing
from tests.testbed.kube_component import KubeControllerManager
from tests.waiting import blocked_until as until
from tests.whole.conftest import Start

pytestmark = [pytest.mark.slow, pytest.mark.integration]

CODE = re.compile(r"^ *```(\w*)\n(.*?)^ *```|`(kubectl [^`]+)`", re.MULTILINE | re.DOTALL)
PROGRAMS = ("docker", "echo", "helm", "ip=", "kubectl", "leadsman", "make", "mkdir", "source")
"""With which a block without a language begins that is for a shell."""

AWAY = (
    *("crictl", "ctr", "docker", "kind", "oc", "scp", "skopeo", "snap", "ssh", "sysctl", "systemctl"),
    *("helm", "make", "pip", "tar"),
)
"""Of other machines and container runtimes; the chart, the wheel and what make starts have tests of their own; and tar,
which reads what a container would send."""

NO_KUBELET = (
    "does not have a host assigned",
    "pod is not running",
    "timed out waiting for the condition",
    "no preferred addresses found",
)
ANSWERS_NO = re.compile(r"1 (kubectl )?leadsman (doctor|uninstall|explain)")
"""They end with 1, and say why: no pod runs, something is left, and nobody decided on this pod."""

NODES = ("edge-1", "edge-7", "leadsman-worker", "leadsman-worker3")
DECIDED = {"name": "cart-7", "namespace": "shop", "uid": "cart-7"}
IN_CAPITALS = {"POD": "waiting", "NODE": NODES[0], "NAMESPACE": "leadsman", "PEER": "127.0.0.1"}
"""What stands where a page has a word in capitals."""

POD = """
apiVersion: v1
kind: Pod
metadata: {name: waiting}
spec:
  securityContext: {runAsNonRoot: true, runAsUser: 65532, seccompProfile: {type: RuntimeDefault}}
  containers:
    - name: app
      image: none
      securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
"""

INSTALL = """
while kubectl get namespace leadsman -o "jsonpath={.status.phase}" --ignore-not-found | grep -q Terminating; do
  kubectl -n leadsman delete pods --all --force --grace-period=0 2> /dev/null || true
done
kubectl apply -k daemonset/overlay
kubectl apply -f daemonset/components/telemetry/crd.yaml
kubectl -n leadsman apply -f pod.yaml
kubectl -n default apply -f pod.yaml
kubectl -n leadsman create deployment leadsman-etcd --image=none || true
kubectl -n leadsman create deployment leadsman-scheduler --image=none || true
kubectl -n leadsman apply -f made.yaml
kubectl -n leadsman wait --for=create pod/leadsman-etcd-0 pod/leadsman-etcd-1 pod/leadsman-etcd-2 --timeout=60s
until kubectl -n leadsman get pods -l app.kubernetes.io/component=extender -o name | grep -q pod/; do :; done
"""
"""What the page before may have deleted, and what a cluster has where a page needs it: one member of etcd, a second
scheduler, what a leader and re-placement make. A pod that has a node goes when its kubelet says so."""

MADE_BY_CONTROLLER = """
{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: leadsman-controller}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: leadsman-replacement}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: leadsman-placeholders}}
"""

PROLOGUE = """
set -E -o pipefail
mount -t tmpfs none "$LAYERS"
for each in etc var; do
  mkdir -p "$LAYERS/$each/up" "$LAYERS/$each/work"
  mount -t overlay overlay -o "lowerdir=/$each,upperdir=$LAYERS/$each/up,workdir=$LAYERS/$each/work" "/$each"
done
mkdir -p /etc/kubernetes/manifests /etc/kubernetes/leadsman /var/snap/microk8s/current/args ~/.config/fish/completions
cp "$MANIFEST" /etc/kubernetes/manifests/kube-scheduler.yaml
cp "$CERTS"/ca.crt "$CERTS"/client.* /etc/kubernetes/leadsman/
fpath=(. .)
trap 'echo "$? $BASH_COMMAND" >> "$FAILED"' ERR
"""


def commands_of(text: str) -> Iterator[str]:
    """Of a page, in its order: each block for a shell, without lines that leave something out, and kubectl's commands
    in the prose."""
    for language, block, prose in CODE.findall(text):
        kept = "\n".join(line for line in block.splitlines() if "…" not in line)
        if kept and (language == "sh" or (not language and kept.lstrip().startswith(PROGRAMS))):
            yield kept
        elif prose.count(" ") > 2 and "…" not in prose:
            yield " ".join(prose.split())


PAGES = {
    path: list(commands_of(text))
    for path, text in documents().items()
    if not path.startswith(("CHANGELOG", "docs/decisions")) and any(commands_of(text))
}


class Reader:
    """Somebody who types what the pages say. folder: of all files."""

    def __init__(self, api: KubeApiServer, folder: Path, etcd_url: str, extender_url: str) -> None:
        self._folder, self._etcd_url = folder, etcd_url
        programs, self._certs = folder / "programs", folder / "certs"
        make_programs(programs)
        (folder / "layers").mkdir()
        self._environ = {
            **os.environ,
            "PATH": f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(folder / "home"),
            "EDITOR": "true",
            "KUBECONFIG": str(api.kubeconfig()),
            "LEADSMAN_EXTENDER": extender_url,
            "CERTS": str(self._certs),
            "MANIFEST": str(ROOT / "tests/data/schedulers/kubeadm-1.36/kube-scheduler.yaml"),
            "LAYERS": str(folder / "layers"),
            "FAILED": str(folder / "failed"),
        }
        assert main(["certs", "create", f"--dir={self._certs}"]) == 0

    def run(self, script: str) -> tuple[list[str], str]:
        """The commands that failed, each behind its exit code, and all that was printed. A script begins in a fresh
        checkout."""
        checkout, failed = self._folder / "checkout", Path(self._environ["FAILED"])
        shutil.rmtree(checkout, ignore_errors=True)
        failed.write_text("")
        for name in ("charts", "daemonset", "examples"):
            shutil.copytree(ROOT / name, checkout / name)
        if "certs create" not in script:
            shutil.copytree(self._certs, checkout / "leadsman-certs")
        shutil.copytree(self._folder / "recording", checkout / "recording")
        (checkout / "pod.yaml").write_text(POD)
        (checkout / "made.yaml").write_text(MADE_BY_CONTROLLER)
        shutil.copy(ROOT / "daemonset/base/policy.yaml", checkout / "other.yaml")
        done = subprocess.run(
            ["unshare", "--mount", "bash", "-c", PROLOGUE + self._filled_in(script)],
            cwd=checkout,
            env=self._environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        wrong = [each for each in failed.read_text().splitlines() if not ANSWERS_NO.match(each)]
        return wrong, done.stdout + done.stderr

    def _filled_in(self, script: str) -> str:
        script = re.sub(rf"(?<![$\w{{])({'|'.join(IN_CAPITALS)})(?![\w=])", lambda found: IN_CAPITALS[found[1]], script)
        return script.replace("http://127.0.0.1:2379", self._etcd_url).replace("leadsman nodes -w", "leadsman nodes")


def make_programs(folder: Path) -> None:
    """AWAY, a kubectl that needs no kubelets, and a python3 that makes an environment without installing into it.

    kubectl may end by SIGPIPE, 141: `head -1` has read enough.
    """
    real = shutil.which("kubectl")
    kubectl = f'''
        case " $* " in
          *" delete "*) set -- "$@" --wait=false ;;
          *" rollout "*) set -- "$@" --timeout=1s ;;
          *" debug "*) set -- "$1" "$2" "${{@:4}}" ;;  # without -it, which waits for a kubelet
        esac
        said=$(mktemp); timeout 30 {real} "$@" 2> $said; code=$?; cat $said >&2
        [ $code = 0 ] || [ $code = 141 ] || grep -qE "{"|".join(NO_KUBELET)}" $said
    '''
    python3 = "mkdir -p .venv/bin && : > .venv/bin/activate && ln -sf /bin/true .venv/bin/pip"
    folder.mkdir()
    for name, text in {**dict.fromkeys(AWAY, "true"), "kubectl": kubectl, "python3": python3}.items():
        (folder / name).write_text(f"#!/bin/bash\n{text}\n")
        (folder / name).chmod(0o755)


@pytest.fixture
def cluster(kubernetes_binaries: Path, tmp_path: Path) -> Iterator[KubeApiServer]:
    """Its nodes have no kubelet."""
    if shutil.which("kubectl") is None or os.geteuid() != 0:
        pytest.skip("needs root and kubectl: apt-get install kubernetes-client")
    with KubeApiServer(kubernetes_binaries, tmp_path / "kubernetes") as api:
        try:
            manager = KubeControllerManager(kubernetes_binaries, tmp_path / "manager", api)
        except KubeApiServerMissing as missing:
            pytest.skip(str(missing))
        for node in NODES:
            api.call("POST", "/api/v1/nodes", {"metadata": {"name": node}})
        api.call("POST", "/api/v1/namespaces/kube-system/configmaps", {"metadata": {"name": "kubeadm-config"}})
        with manager:
            yield api


def test_every_command_of_every_page_does_what_it_is_for(
    cluster: KubeApiServer, tmp_path: Path, agent: Start, start: Start, etcd: Etcd
) -> None:
    for number, node in enumerate(NODES, 1):
        agent(node, number, "--pods=off")
    (recording := tmp_path / "recording").mkdir()
    extender = start("extender", f"--kubeconfig={cluster.kubeconfig()}", f"--record-dir={recording}")
    until(lambda: extender.nodes().keys() == {*NODES}, "all nodes seen")
    asked = scheduler_request.captured_args(NODES, {})
    asked["Pod"]["metadata"] |= DECIDED
    extender.post("filter", asked)
    reader = Reader(cluster, tmp_path, etcd.client_url, extender.api_url)
    failed = []
    for page, scripts in PAGES.items():
        for script in (INSTALL, *scripts):
            wrong, said = reader.run(script)
            failed += [f"{page}: {each}" for each in wrong] + [said] * bool(wrong)
    assert failed == [], "\n".join(failed)
