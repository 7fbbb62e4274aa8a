"""The configuration of what runs on a node of the cluster: kubelet, kube-proxy, containerd, the pods' network."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.e2e.images import SANDBOX
from tests.e2e.needs import CNI_FOLDER
from tests.e2e.registry import PORT

CONTROL_PLANE = "10.78.0.1"
ALLOCATABLE_GIB = 8
"""Of each node, as in the edge scheduler's demo."""

EVICTED_BELOW = 50 << 20


def kubelet(folder: Path, cgroup: str) -> Mapping[str, Any]:
    """folder: the node's, with resolv.conf. cgroup: below which its pods are."""
    machine_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{cgroup}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "oomScoreAdj": 0,  # Nobody may lower it without CAP_SYS_RESOURCE.
        "clusterDNS": [CONTROL_PLANE],
        "clusterDomain": "cluster.local",
        "resolvConf": str(folder / "resolv.conf"),
        # kube-apiserver, which forwards ports, has no certificate for kubelets; nobody else is on their network.
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        # The disk is the machine's, which others fill too.
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        # Only the model of a small node: nothing is enforced.
        "systemReserved": {"memory": str(max(0, machine_bytes - (ALLOCATABLE_GIB << 30) - EVICTED_BELOW))},
        "enforceNodeAllocatable": [],
        "evictionHard": {"nodefs.available": "1%", "imagefs.available": "1%", "memory.available": str(EVICTED_BELOW)},
    }


def kube_proxy(folder: Path, name: str) -> Mapping[str, Any]:
    """folder: the node's, with the kubeconfig."""
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": {"kubeconfig": str(folder / "kube-proxy.json")},
        "hostnameOverride": name,
        "mode": "nftables",
        "clusterCIDR": "10.89.0.0/16",
        # The machine's, and not to be set from here.
        "conntrack": {"maxPerCore": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
    }


def pod_network(pods: str) -> Mapping[str, Any]:
    """pods: the range of their addresses."""
    ranges = {"type": "host-local", "dataDir": "/run/cni", "ranges": [[{"subnet": pods}]]}
    bridge = {"type": "bridge", "bridge": "cni0", "isGateway": True, "hairpinMode": True}
    plugin = bridge | {"ipam": ranges | {"routes": [{"dst": "0.0.0.0/0"}]}}
    return {"cniVersion": "0.4.0", "name": "pods", "plugins": [plugin]}


def registries() -> str:
    """Every image is the one that the control plane serves."""
    return f'[host."http://{CONTROL_PLANE}:{PORT}"]\n  capabilities = ["pull", "resolve"]\n'


CONTAINERD = f"""version = 2
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs"]
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{SANDBOX}"
  # Without CAP_SYS_RESOURCE a lower oom_score_adj is refused, and runc says only "unexpected EOF".
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "{{folder}}/registries"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{CNI_FOLDER}"
    conf_dir = "/etc/cni/net.d"
"""
