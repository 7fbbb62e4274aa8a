"""The chart's settings that stand for kustomize's components."""

from tests.daemonset.conftest import EVERYTHING

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
"""Component → the setting that has the same objects made."""
EVERY_SETTING = [SETTINGS_OF[component] for component in EVERYTHING]
