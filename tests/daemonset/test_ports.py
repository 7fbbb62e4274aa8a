"""One port number, wherever it is named."""

from typing import Any

from tests.daemonset.conftest import Objects

LISTEN = {
    "--listen": {"agent": "metrics", "controller": "metrics", "extender": "https", "member": "https"},
    "--ops-listen": {"extender": "ops", "member": "ops"},
}
MONITORS = {"PodMonitor": "podMetricsEndpoints", "ServiceMonitor": "endpoints"}
"""Kind → its list of endpoints, in monitoring.coreos.com/v1."""
OPTIONAL = {"controller": {"metrics": 9003}}
"""Components that monitors name whether they are chosen or not."""


def containers(workloads: Objects) -> Objects:
    specs = [w["spec"]["template"]["spec"] for w in workloads]
    return [each for spec in specs for each in (*spec.get("initContainers", ()), spec["containers"][0])]


def ports(container: dict[str, Any]) -> dict[str, int]:
    return {port["name"]: port["containerPort"] for port in container["ports"]}


def arguments(container: dict[str, Any]) -> dict[str, str]:
    return dict(argument.partition("=")[::2] for argument in container["args"])


def test_ours_listen_on_the_ports_they_declare(workloads: Objects) -> None:
    for container in (c for c in containers(workloads) if c["image"].startswith("leadsman")):
        given = arguments(container)
        listens = {names[container["name"]]: given[flag] for flag, names in LISTEN.items() if flag in given}
        assert listens == {name: f"0.0.0.0:{number}" for name, number in ports(container).items()}


def test_probes_ask_a_declared_port_that_is_not_the_scheduler_s(workloads: Objects) -> None:
    for container in containers(workloads):
        asked = {probe["httpGet"]["port"] for name, probe in container.items() if name.endswith("Probe")}
        ports_asked = {"extender": "ops", "member": "ops", "scheduler": "https"}
        assert asked == {ports_asked.get(container["name"], "metrics")}
        assert asked <= set(ports(container))


def test_services_lead_to_declared_ports_under_the_same_number(objects: Objects, workloads: Objects) -> None:
    behind = declared_ports(workloads)
    for service in (o for o in objects if o["kind"] == "Service"):
        declared = behind[service["metadata"]["labels"]["app.kubernetes.io/component"]]
        for port in service["spec"]["ports"]:
            assert declared[port["targetPort"]] == port["port"]


def test_monitors_scrape_declared_ports(objects: Objects, workloads: Objects) -> None:
    behind = declared_ports(workloads)
    monitors = [o for o in objects if o["kind"] in MONITORS]
    monitored = {m["metadata"]["labels"]["app.kubernetes.io/component"] for m in monitors}
    assert not monitors or monitored >= behind.keys() - {"scheduler"}, "kube-scheduler wants a token for its metrics"
    for monitor in monitors:
        component = monitor["metadata"]["labels"]["app.kubernetes.io/component"]
        declared = {**OPTIONAL, **behind}[component]
        assert set(monitor["spec"]) == {"selector", MONITORS[monitor["kind"]]}
        for endpoint in monitor["spec"][MONITORS[monitor["kind"]]]:
            assert endpoint["port"] in declared
            assert endpoint["path"] == "/metrics"


def declared_ports(workloads: Objects) -> dict[str, dict[str, int]]:
    """Component → name → number."""
    return {
        w["metadata"]["labels"]["app.kubernetes.io/component"]: {
            name: number for container in containers([w]) for name, number in ports(container).items()
        }
        for w in workloads
    }
