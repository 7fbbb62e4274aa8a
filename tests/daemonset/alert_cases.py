"""For each alert, series with which it fires and series with which it does not, a value a minute as promtool writes it.

A case of the second kind is close to the alert: the same series, below the threshold or not for long enough.
"""

from typing import NamedTuple

AGENT, EXTENDER = 'up{job="leadsman/leadsman-agent",node="edge-1"}', 'up{job="leadsman-extender",instance="a"}'
FRESH, STALE = (f'leadsman_state_nodes{{instance="a",freshness="{each}"}}' for each in ("fresh", "stale"))
DECIDED = 'leadsman_extender_decisions_total{verb="filter",result="%s",reason=""}'
BUCKET = 'leadsman_extender_request_duration_seconds_bucket{verb="filter",code="200",le="%s"}'
WAITING, LONGEST = "leadsman_bounded_pods_waiting", "leadsman_bounded_pods_longest_wait_seconds"
ASKED = 'leadsman_extender_last_request_timestamp_seconds{verb="filter"}'
SENT, LOST = (f'leadsman_probes_{each}_total{{node="edge-1"}}' for each in ("sent", "lost"))
RTT = 'leadsman_peer_rtt_p50_seconds{node="edge-1",peer="edge-2"}'
EXPIRES = 'leadsman_tls_certificate_expiry_timestamp_seconds{certificate="server"}'
RUNNING, MOVED = 'leadsman_move_plan_state{state="running"}', 'leadsman_move_plan_moves{outcome="moved"}'
SUSPECT = 'leadsman_node_suspect{node="edge-1",verdict="dead",reason="silent"}'
SIZE = 'leadsman_etcd_size_ratio{pod="leadsman-etcd-0"}'
DAY_SECONDS = 86400


class AlertCase(NamedTuple):
    """firing, quiet: series → values. at_minutes: when it is looked at."""

    firing: dict[str, str]
    quiet: dict[str, str]
    at_minutes: int = 30


def gauge(series: str, firing: int, quiet: int = 0, at_minutes: int = 30) -> AlertCase:
    """Fires at one constant, and not at another."""
    return AlertCase({series: f"{firing}x200"}, {series: f"{quiet}x200"}, at_minutes)


def counter(series: str, step: int = 1) -> AlertCase:
    """Fires while it grows by so much a minute, and not while it stands."""
    return AlertCase({series: f"0+{step}x200"}, {series: "7x200"})


CASES = {
    "AgentDown": gauge(AGENT, 0, 1),
    "NodesStale": AlertCase({FRESH: "90x60", STALE: "10x60"}, {FRESH: "96x60", STALE: "4x60"}),
    "NoProbeAnswers": gauge('leadsman_prober_fault{node="edge-1"}', 1),
    "PeerLossHigh": AlertCase({SENT: "0+960x60", LOST: "0+120x60"}, {SENT: "0+960x60", LOST: "0+60x60"}),
    "RttRegressed": AlertCase({RTT: "0.01x400 0.02x60"}, {RTT: "0.01x400 0.015x60"}, 440),
    "CollectorFailing": gauge('leadsman_collector_success{node="edge-1",collector="hwmon"}', 0, 1),
    "PodsNotFollowed": gauge('leadsman_pods_followed{node="edge-1"}', 0, 1),
    "RewardPluginOff": gauge('leadsman_reward_plugin_active{node="edge-1",plugin="connect"}', 0, 1),
    "EtcdOutOfSpace": counter('leadsman_report_failures_total{cause="OutOfSpace"}'),
    "EtcdFilling": AlertCase({SIZE: "0.6x60"}, {SIZE: "0.4x60"}),
    "EtcdManyLeases": counter("etcd_debugging_lease_granted_total", 2000),
    "EtcdMemberDiffers": gauge('leadsman_etcd_member_differs{pod="leadsman-etcd-0"}', 1),
    "EtcdClientLimited": counter('leadsman_etcd_gateway_requests_total{pod="leadsman-etcd-0",outcome="limited"}', 10),
    "ExtenderDown": gauge(EXTENDER, 0, 1),
    "StateOld": gauge("leadsman_state_age_seconds", 20, 6),
    "ExtenderSlow": AlertCase(
        {BUCKET % "0.2": "0+90x60", BUCKET % "0.5": "0+100x60", BUCKET % "+Inf": "0+100x60"},
        {BUCKET % "0.2": "0+100x60", BUCKET % "0.5": "0+100x60", BUCKET % "+Inf": "0+100x60"},
    ),
    "NeutralAnswers": AlertCase(
        {DECIDED % "kept": "0+900x60", DECIDED % "neutral": "0+100x60"},
        {DECIDED % "kept": "0+999x60", DECIDED % "neutral": "0+1x60"},
    ),
    "SchedulerNotAsking": AlertCase({WAITING: "1x60", ASKED: "0x60"}, {WAITING: "1x60", ASKED: "0+60x60"}),
    "PolicyRefused": AlertCase(
        {"leadsman_policy_load_success": "0x60"},
        {"leadsman_policy_load_success": "1x60", 'leadsman_telemetry_policies{state="refused"}': "0x60"},
    ),
    "CertificateExpiring": AlertCase(
        {EXPIRES: f"{10 * DAY_SECONDS}x200"},
        {EXPIRES: f"{20 * DAY_SECONDS}x200"},
        90,
    ),
    "EstimatesFailing": counter("leadsman_estimates_failures_total"),
    "DeadLinks": AlertCase({"leadsman_dead_links": "1x60"}, {"leadsman_dead_links": "1x20 0x3 1x60"}, 26),
    "NodeContradicted": gauge("leadsman_contradicted_nodes", 1, 0),
    "MetricSourceFailing": gauge('leadsman_telemetry_metrics{source="agents",state="failed"}', 1),
    "PluginOff": gauge('leadsman_plugin_active{plugin="slow"}', 0, 1),
    "BoundedPodsWaiting": AlertCase({WAITING: "1x60", LONGEST: "0+60x60"}, {WAITING: "1x60", LONGEST: "300x60"}),
    "BoundViolated": gauge("leadsman_bounded_pods_over_bound", 1),
    "BoundUnchecked": counter('leadsman_controller_bound_pods_total{result="unchecked"}'),
    "NoLeader": AlertCase(
        {f'leadsman_controller_leader{{pod="{pod}"}}': "0x60" for pod in "ab"},
        {'leadsman_controller_leader{pod="a"}': "0x60", 'leadsman_controller_leader{pod="b"}': "1x60"},
    ),
    "ControllerStopped": gauge("leadsman_controller_stopped", 1),
    "WithheldLong": gauge("leadsman_controller_withheld_actions", 3, at_minutes=90),
    "BindFailures": counter('leadsman_controller_bind_failures_total{cause="bind_refused"}'),
    "NodeSuspect": AlertCase({SUSPECT: "1x60"}, {SUSPECT: "1x20 stale"}),
    "FailedOver": counter('leadsman_recovery_actions_total{action="DeletePod",result="done"}'),
    "FailoverWithheld": AlertCase(
        {'leadsman_withheld_failover{node="edge-1",reason="budget"}': "1x60"},
        {'leadsman_withheld_failover{node="edge-1",reason="budget"}': "1x10 stale"},
    ),
    "BoundedPodUncovered": gauge('leadsman_bounded_pods{coverage="uncovered"}', 2),
    "PlaceholderLost": counter("leadsman_placeholders_lost_total"),
    "PlanStalled": AlertCase({RUNNING: "1x200", MOVED: "3x200"}, {RUNNING: "1x200", MOVED: "0+1x200"}, 120),
    "DeviceUnhealthy": gauge('leadsman_device_health_devices{state="faulty"}', 1),
}
