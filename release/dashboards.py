"""`python -m release.dashboards`: writes the Grafana dashboards of daemonset/components/dashboards/."""

from pathlib import Path

from release.dashboard_json import Dashboard, Panel, stat, text_of

FOLDER = Path(__file__).parents[1] / "daemonset/components/dashboards"
RATE = "[$__rate_interval]"

OVERVIEW = Dashboard(
    "overview",
    "Leadsman / Overview",
    {
        "Now": (
            stat("Fresh nodes", 'max(leadsman_state_nodes{freshness="fresh"})'),
            stat("Nodes that are not fresh", 'max(sum by (instance) (leadsman_state_nodes{freshness!="fresh"}))'),
            stat("Newest report", "min(leadsman_state_age_seconds)", "s", "Above 15 s no report arrives."),
            stat("Bounded pods waiting", "max(leadsman_bounded_pods_waiting)"),
            stat("Longest wait", "max(leadsman_bounded_pods_longest_wait_seconds)", "s"),
            stat("Pods over their bound", "max(leadsman_bounded_pods_over_bound)"),
            stat("Certificates expire in", "min(leadsman_tls_certificate_expiry_timestamp_seconds) - time()", "s"),
            stat("Replicas that lead", "sum(leadsman_controller_leader)"),
            stat("Since kube-scheduler asked", "time() - max(leadsman_extender_last_request_timestamp_seconds)", "s"),
        ),
        "Course": (
            Panel(
                "Decisions a second",
                {f"sum by (result) (rate(leadsman_extender_decisions_total{RATE}))": "{{result}}"},
                "ops",
            ),
            Panel(
                "Response time, p99",
                {
                    "histogram_quantile(0.99, sum by (le, verb) ("
                    f"rate(leadsman_extender_request_duration_seconds_bucket{RATE})))": "{{verb}}"
                },
                "s",
            ),
            Panel(
                "Lost probes, all nodes",
                {f"sum(rate(leadsman_probes_lost_total{RATE})) / sum(rate(leadsman_probes_sent_total{RATE}))": "lost"},
                "percentunit",
            ),
            Panel("Nodes by freshness", {"max by (freshness) (leadsman_state_nodes)": "{{freshness}}"}),
            Panel("Memory", {"process_resident_memory_bytes": "{{job}} {{instance}}"}, "bytes"),
            Panel("CPU", {f"rate(process_cpu_seconds_total{RATE})": "{{job}} {{instance}}"}, "percentunit"),
        ),
    },
)

RTT = Dashboard(
    "rtt",
    "Leadsman / Round-trip times",
    {
        "All peers": (
            Panel(
                "Round trips, median by class of path",
                {f"histogram_quantile(0.5, sum by (le, class) (rate(leadsman_rtt_seconds_bucket{RATE})))": "{{class}}"},
                "s",
            ),
            Panel(
                "Round trips, p95 by class of path",
                {
                    f"histogram_quantile(0.95, sum by (le, class) (rate(leadsman_rtt_seconds_bucket{RATE})))": (
                        "{{class}}"
                    )
                },
                "s",
            ),
            Panel(
                "Round trips",
                {f"sum by (le) (increase(leadsman_rtt_seconds_bucket{RATE}))": "{{le}}"},
                "s",
                "heatmap",
            ),
        ),
        "Nodes": (
            Panel(
                "Farthest nodes: median to lasting peers",
                {"topk(10, quantile by (node) (0.5, leadsman_peer_rtt_p50_seconds))": "{{node}}"},
                "s",
            ),
            Panel(
                "Nodes that lose most",
                {
                    f"topk(10, sum by (node) (rate(leadsman_probes_lost_total{RATE}))"
                    f" / sum by (node) (rate(leadsman_probes_sent_total{RATE})))": "{{node}}"
                },
                "percentunit",
            ),
            Panel(
                "Widest jitter",
                {"topk(10, max by (node) (leadsman_peer_rtt_jitter_seconds))": "{{node}}"},
                "s",
            ),
            Panel("Nodes without any answer", {"sum(leadsman_prober_fault)": "nodes"}),
            Panel("Peers that answer TCP only", {"sum by (node) (leadsman_peer_icmp_blocked) > 0": "{{node}}"}),
            Panel("Peers under probe", {"sum by (kind) (leadsman_peers)": "{{kind}}"}),
        ),
        "Estimates": (
            Panel("Expected error", {"leadsman_estimates_expected_error_ratio": "{{instance}}"}, "percentunit"),
            Panel("Measured pairs", {"leadsman_estimates_pairs": "{{instance}}"}),
            Panel("Nodes that others contradict", {"leadsman_contradicted_nodes": "{{instance}}"}),
            Panel("Reports left out of estimates", {"leadsman_implausible_reports": "{{instance}}"}),
        ),
    },
)

NODE = Dashboard(
    "node",
    "Leadsman / Node",
    {
        "Paths": (
            Panel("Round trips, p50", {'leadsman_peer_rtt_p50_seconds{node="$node"}': "{{peer}}"}, "s"),
            Panel("Round trips, p95", {'leadsman_peer_rtt_p95_seconds{node="$node"}': "{{peer}}"}, "s"),
            Panel("Loss", {'leadsman_peer_loss_ratio{node="$node"}': "{{peer}}"}, "percentunit"),
        ),
        "Hardware": (
            Panel(
                "CPU by mode",
                {f'sum by (mode) (rate(leadsman_cpu_seconds_total{{node="$node"}}{RATE}))': "{{mode}}"},
            ),
            Panel("Load of 5 minutes", {'leadsman_load5{node="$node"}': "load"}),
            Panel(
                "Memory",
                {
                    'leadsman_memory_available_bytes{node="$node"}': "available",
                    'leadsman_memory_total_bytes{node="$node"}': "total",
                },
                "bytes",
            ),
            Panel(
                "Network, received and sent",
                {
                    f'sum(rate(leadsman_network_receive_bytes_total{{node="$node"}}{RATE}))': "received",
                    f'sum(rate(leadsman_network_transmit_bytes_total{{node="$node"}}{RATE}))': "sent",
                },
                "Bps",
            ),
            Panel(
                "Disks busy",
                {f'rate(leadsman_disk_io_time_seconds_total{{node="$node"}}{RATE})': "{{device}}"},
                "percentunit",
            ),
            Panel("Collectors that fail", {'leadsman_collector_success{node="$node"} == 0': "{{collector}}"}),
        ),
        "Agent": (
            Panel(
                "Failed reports",
                {f'sum by (cause) (rate(leadsman_report_failures_total{{node="$node"}}{RATE}))': "{{cause}}"},
                "ops",
            ),
            Panel("Pods", {'leadsman_pods{node="$node"}': "pods"}),
            Panel(
                "Incidents an hour",
                {f'sum by (type) (rate(leadsman_incidents_total{{node="$node"}}{RATE})) * 3600': "{{type}}"},
            ),
        ),
    },
    by_node=True,
)

DECISIONS = Dashboard(
    "decisions",
    "Leadsman / Decisions",
    {
        "Answers": (
            Panel(
                "By result",
                {f"sum by (verb, result) (rate(leadsman_extender_decisions_total{RATE}))": "{{verb}} {{result}}"},
                "ops",
            ),
            Panel(
                "Refused and neutral, by reason",
                {
                    'sum by (reason) (rate(leadsman_extender_decisions_total{result=~"refused|neutral"}'
                    f"{RATE}))": "{{reason}}"
                },
                "ops",
            ),
            Panel(
                "Responses by code",
                {f"sum by (code) (rate(leadsman_extender_request_duration_seconds_count{RATE}))": "{{code}}"},
                "reqps",
            ),
        ),
        "Speed": tuple(
            Panel(
                f"Response time, p{percent}",
                {
                    f"histogram_quantile({percent / 100}, sum by (le, verb) ("
                    f"rate(leadsman_extender_request_duration_seconds_bucket{RATE})))": "{{verb}}"
                },
                "s",
            )
            for percent in (50, 95, 99)
        ),
        "What decisions rest on": (
            Panel("Worker threads past their deadline", {"leadsman_extender_overdue_workers": "{{instance}}"}),
            Panel("Age of the state", {"leadsman_state_age_seconds": "{{instance}}"}, "s"),
            Panel(
                "Age of the API server's lists",
                {"max by (resource) (leadsman_apiserver_age_seconds)": "{{resource}}"},
                "s",
            ),
            Panel("Age of estimates", {"leadsman_estimates_age_seconds": "{{instance}}"}, "s"),
            Panel(
                "Metrics of telemetry policies",
                {"max by (source, state) (leadsman_telemetry_metrics)": "{{source}} {{state}}"},
            ),
            Panel(
                "Pairs that agents were asked to measure",
                {f"sum(rate(leadsman_probe_requests_sent_total{RATE}))": "pairs"},
                "ops",
            ),
        ),
    },
)

REWARDS = Dashboard(
    "rewards",
    "Leadsman / Rewards",
    {
        "Pod types": (
            Panel(
                "Value of the worst node", {"min by (type) (leadsman_reward_lowest_value)": "{{type}}"}, "percentunit"
            ),
            Panel("Nodes that score below the others", {"max by (type) (leadsman_reward_nodes_doubted)": "{{type}}"}),
            Panel("Incidents, faded", {"max by (type) (leadsman_reward_failures)": "{{type}}"}),
        ),
        "Incidents": (
            Panel("By cause, an hour", {f"sum by (cause) (rate(leadsman_incidents_total{RATE})) * 3600": "{{cause}}"}),
            Panel(
                "Most by type, an hour",
                {f"topk(10, sum by (type) (rate(leadsman_incidents_total{RATE})) * 3600)": "{{type}}"},
            ),
            Panel(
                "Most by node, an hour",
                {f"topk(10, sum by (node) (rate(leadsman_incidents_total{RATE})) * 3600)": "{{node}}"},
            ),
        ),
        "Evidence": (
            Panel("Nodes that do not follow their pods", {"sum(leadsman_pods_followed == bool 0)": "nodes"}),
            Panel("Rewards written", {f"sum(rate(leadsman_rewards_writes_total{RATE}))": "writes"}, "ops"),
            Panel(
                "Writes of rewards that failed",
                {f"sum(rate(leadsman_rewards_write_failures_total{RATE}))": "failed"},
                "ops",
            ),
        ),
    },
)

CONTROLLER = Dashboard(
    "controller",
    "Leadsman / Controller",
    {
        "Labels": (
            Panel("Who leads", {"leadsman_controller_leader": "{{instance}}"}),
            Panel(
                "Actions planned and withheld",
                {
                    "max(leadsman_controller_planned_actions)": "planned",
                    "max(leadsman_controller_withheld_actions)": "withheld",
                    "max(leadsman_controller_stopped)": "reasons to change nothing",
                },
            ),
            Panel(
                "Patches of nodes",
                {f"sum by (result) (rate(leadsman_controller_patches_total{RATE}))": "{{result}}"},
                "ops",
            ),
        ),
        "Pods with a delay bound": (
            Panel(
                "Waiting, and over their bound",
                {
                    "max(leadsman_bounded_pods_waiting)": "waiting",
                    "max(leadsman_bounded_pods_over_bound)": "over their bound",
                },
            ),
            Panel(
                "Looked at after they were bound",
                {f"sum by (result) (rate(leadsman_controller_bound_pods_total{RATE}))": "{{result}}"},
                "ops",
            ),
            Panel(
                "Binds that failed",
                {f"sum by (cause) (rate(leadsman_controller_bind_failures_total{RATE}))": "{{cause}}"},
                "ops",
            ),
        ),
        "Self-healing": (
            Panel("Nodes by verdict", {"max by (verdict) (leadsman_node_verdicts)": "{{verdict}}"}),
            Panel("Pods by coverage", {"max by (coverage) (leadsman_bounded_pods)": "{{coverage}}"}),
            Panel("Placeholders", {"max by (state) (leadsman_placeholders)": "{{state}}"}),
            Panel(
                "Actions on dead nodes",
                {f"sum by (action, result) (rate(leadsman_recovery_actions_total{RATE}))": "{{action}} {{result}}"},
                "ops",
            ),
            Panel(
                "Moves that ended", {f"sum by (result) (rate(leadsman_replacements_total{RATE}))": "{{result}}"}, "ops"
            ),
            Panel("Events written", {f"sum(rate(leadsman_controller_events_total{RATE}))": "events"}, "ops"),
        ),
    },
)

DASHBOARDS = (OVERVIEW, RTT, NODE, DECISIONS, REWARDS, CONTROLLER)


def main() -> None:
    for dashboard in DASHBOARDS:
        (FOLDER / f"{dashboard.name}.json").write_text(text_of(dashboard))


if __name__ == "__main__":
    main()
