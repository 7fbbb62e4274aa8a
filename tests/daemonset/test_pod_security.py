"""Pods meet the restricted profile: https://kubernetes.io/docs/concepts/security/pod-security-standards/."""

from pathlib import Path
from typing import Any

from tests.daemonset.conftest import Find, Objects

SAFE_SYSCTLS = {
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ping_group_range",
    "net.ipv4.tcp_syncookies",
}
VOLUMES = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"}
HOST_NAMESPACES = ("hostNetwork", "hostPID", "hostIPC")
ENFORCE = "pod-security.kubernetes.io/enforce"


def violations(pod: dict[str, Any]) -> list[str]:
    """The rules of the restricted profile that a pod spec breaks."""
    security = pod.get("securityContext", {})
    broken = [name for name in HOST_NAMESPACES if pod.get(name)]
    broken += ["sysctl" for s in security.get("sysctls", []) if s["name"] not in SAFE_SYSCTLS]
    broken += ["volume" for v in pod.get("volumes", []) if not set(v) - {"name"} <= VOLUMES]
    for container in pod["containers"]:
        broken += container_violations(container, security)
    return broken


def container_violations(container: dict[str, Any], pod_security: dict[str, Any]) -> list[str]:
    own = {**pod_security, **container.get("securityContext", {})}
    capabilities = own.get("capabilities", {})
    rules = {
        "runAsNonRoot": own.get("runAsNonRoot") is True and own.get("runAsUser", 1) != 0,
        "seccomp": own.get("seccompProfile", {}).get("type") in ("RuntimeDefault", "Localhost"),
        "escalation": own.get("allowPrivilegeEscalation") is False and not own.get("privileged"),
        "capabilities": capabilities.get("drop") == ["ALL"] and not capabilities.get("add"),
        "hostPort": not any(p.get("hostPort") for p in container.get("ports", [])),
    }
    return [rule for rule, kept in rules.items() if not kept]


def test_every_pod_is_restricted_but_for_what_an_opt_in_component_needs(workloads: Objects, build_name: str) -> None:
    allowed = {"hostnetwork": {"hostNetwork"}, "host-metrics": {"volume"}, "everything": {"hostNetwork", "volume"}}
    for workload in workloads:
        agent = workload["kind"] == "DaemonSet"
        assert set(violations(workload["spec"]["template"]["spec"])) == (
            allowed.get(build_name, set()) if agent else set()
        )


def test_the_namespace_enforces_what_its_pods_meet(find: Find, privileged: bool) -> None:
    labels = find("Namespace", "leadsman")["metadata"]["labels"]
    assert labels[ENFORCE] == ("privileged" if privileged else "restricted")


def test_root_is_read_only_and_the_user_is_the_image_s(workloads: Objects, root: Path) -> None:
    assert "\nUSER 10001:10001\n" in (root / "Dockerfile").read_text()
    for workload in workloads:
        pod = workload["spec"]["template"]["spec"]
        assert pod["securityContext"]["runAsUser"] == 10001
        assert all(c["securityContext"]["readOnlyRootFilesystem"] for c in pod["containers"])
