"""The manifests as objects: as kustomize builds them with each component."""

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
MANIFESTS = ROOT / "daemonset"
CHART = ROOT / "charts/leadsman"
DASHBOARDS = sorted((MANIFESTS / "components/dashboards").glob("*.json"))
COMPONENTS = sorted(folder.name for folder in (MANIFESTS / "components").iterdir())
PROFILES = {"bounds": [], "controller": ["controller"], "self-healing": ["controller", "self-healing"]}
"""Profile → its components, beside the base."""
REQUIRED = {
    "self-healing": "controller",
    "device-health": "controller",
    "move-plans": "self-healing",
    "rebalance": "self-healing",
}
"""Component → the profile that it must be chosen with."""
IN_ORDER = re.findall(r"# - \.\./components/([\w-]+)", (MANIFESTS / "overlay/kustomization.yaml").read_text())
EXCLUDED = {"etcd-single"}
"""Components that take the place of what others change."""
EVERYTHING = [*PROFILES["self-healing"], *(name for name in IN_ORDER if name not in EXCLUDED)]


def _build(component: str) -> list[str]:
    before = PROFILES[REQUIRED.get(component, "bounds")] + (["move-plans"] if component == "rebalance" else [])
    return [*before, component]


BUILDS = {"base": [], **{name: _build(name) for name in COMPONENTS}, "everything": EVERYTHING}

SETTINGS_OF = {
    "hostnetwork": "agent.hostNetwork=true",
    "host-metrics": "agent.hostMetrics=true",
    "prometheus": "serviceMonitor.enabled=true,prometheusRule.enabled=true",
    "dashboards": "dashboards.enabled=true",
    "etcd-single": "etcd.replicas=1",
    "etcd-volumes": "etcd.persistence.enabled=true",
    "bind": "extender.bind=true",
    "telemetry": "telemetry.enabled=true",
    "controller": "profile=controller",
    "self-healing": "profile=self-healing",
    "move-plans": "planning.movePlans=true",
    "rebalance": "planning.rebalance=true",
    "device-health": "controller.deviceHealth.enabled=true",
    "devices": "extender.devices=true",
    "recording": "extender.recording=true",
    "second-scheduler": "scheduler.enabled=true,scheduler.image.tag=v1.36.2",
}
"""Component → the setting of the chart that has the same objects made."""
EVERY_SETTING = [SETTINGS_OF[component] for component in EVERYTHING]

Objects = list[dict[str, Any]]
Render = Callable[[str], Objects]
Find = Callable[[str, str], dict[str, Any]]
Template = Callable[..., Objects]


def builds_with(component: str) -> frozenset[str]:
    """The builds that choose a component."""
    return frozenset(name for name, components in BUILDS.items() if component in components)


def objects_named(objects: Objects, kind: str, name: str) -> Objects:
    """The objects of that kind and name: one, or none where it is not deployed."""
    return [each for each in objects if (each["kind"], each["metadata"]["name"]) == (kind, name)]


def documents(text: str | bytes) -> Objects:
    """Parses by libyaml: with Python's own parser this folder's tests take twice as long."""
    return [each for each in yaml.load_all(text, yaml.CSafeLoader) if each]


def load(path: Path) -> Objects:
    return documents(path.read_text())


@pytest.fixture(scope="session")
def render(tmp_path_factory: pytest.TempPathFactory) -> Render:
    """name of a build → what `kubectl kustomize` makes of it."""
    if shutil.which("kubectl") is None:
        pytest.skip("no kubectl: apt-get install kubernetes-client")
    copy = tmp_path_factory.mktemp("kustomize")
    shutil.copytree(MANIFESTS, copy / "daemonset")
    built: dict[str, Objects] = {}

    def build(name: str) -> Objects:
        if name not in built:
            built[name] = kustomize(copy / name, BUILDS[name])
        return built[name]

    return build


def kustomize(folder: Path, components: list[str]) -> Objects:
    folder.mkdir()
    wanted = {"resources": ["../daemonset/base"], "components": [f"../daemonset/components/{c}" for c in components]}
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(wanted))
    done = subprocess.run(["kubectl", "kustomize", str(folder)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return documents(done.stdout)


@pytest.fixture(params=[pytest.param(name, marks=pytest.mark.integration) for name in BUILDS])
def build_name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def objects(build_name: str, render: Render) -> Objects:
    return render(build_name)


@pytest.fixture
def find(objects: Objects) -> Find:
    """kind, name → the one object."""

    def one(kind: str, name: str) -> dict[str, Any]:
        (found,) = objects_named(objects, kind, name)
        return found

    return one


@pytest.fixture
def workloads(objects: Objects) -> Objects:
    return [o for o in objects if o["kind"] in ("DaemonSet", "Deployment", "StatefulSet")]


@pytest.fixture(scope="session")
def helm() -> str:
    path = shutil.which("helm")
    if path is None:
        pytest.skip("no helm: python -m tests.kubernetes_tools /usr/local/bin")
    return path


@pytest.fixture(scope="session")
def template(helm: str) -> Template:
    """`template("agent.hostNetwork=true")`: the objects of a release leadsman in the namespace leadsman.

    values: as in a file of values.
    """

    def rendered(*settings: str, values: Mapping[str, object] = MappingProxyType({})) -> Objects:
        done = run_template(helm, *settings, values=values)
        assert done.returncode == 0, done.stderr
        return documents(done.stdout)

    return rendered


def run_template(
    helm: str, *settings: str, values: Mapping[str, object] = MappingProxyType({})
) -> subprocess.CompletedProcess[str]:
    given = [part for setting in ("image.registry=", *settings) for part in ("--set", setting)]
    command = [helm, "template", "leadsman", str(CHART), "--namespace", "leadsman", "--values", "-", *given]
    return subprocess.run(command, input=json.dumps(dict(values)), capture_output=True, text=True, check=False)


def panels_of(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Yields each panel's title with its queries; headings have none."""
    for panel in json.loads(path.read_text())["panels"]:
        yield panel["title"], [target["expr"] for target in panel.get("targets", ())]
