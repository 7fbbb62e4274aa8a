"""Each alert fires when it should and not when it should not, by promtool; it has a runbook, and its metrics exist.

CASES has for each alert series with which it fires and series with which it does not, a value a minute as promtool
writes it. A case of the second kind is close to the alert: the same series, below the threshold or not for long enough.
"""

import json
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from leadsman.cluster.constraints import Taint
from leadsman.cluster.model import ClusterNode, cluster_of
from leadsman.kube.names import FAILOVER_ANNOTATION
from leadsman.planning.recovery_plan import FAILOVER_OFF, SHUTDOWN_TAINT, RecoveryBudget, why_withheld
from tests.daemonset.conftest import DASHBOARDS, ROOT, panels_of
from website.metrics_page import metric_families

FILE = ROOT / "daemonset/components/prometheus/rules.yaml"


AGENT, EXTENDER = 'up{job="leadsman/leadsman-agent",node="edge-1"}', 'up{job="leadsman-extender",instance="a"}'
FRESH = 'leadsman_state_nodes{instance="a",freshness="fresh"}'
TWO_AGENTS = {f'up{{job="leadsman/leadsman-agent",node="edge-{number}"}}': "1x60" for number in (1, 2)}
DECIDED = 'leadsman_extender_decisions_total{verb="filter",result="%s",reason=""}'
BUCKET = 'leadsman_extender_request_duration_seconds_bucket{verb="filter",code="200",le="%s"}'
WAITING, LONGEST = "leadsman_bounded_pods_waiting", "leadsman_bounded_pods_longest_wait_seconds"
ASKED = 'leadsman_extender_last_request_timestamp_seconds{verb="filter"}'
SENT, LOST = (f'leadsman_probes_{each}_total{{node="edge-1"}}' for each in ("sent", "lost"))
RTT = 'leadsman_peer_rtt_p50_seconds{node="edge-1",peer="edge-2"}'
EXPIRES = 'leadsman_tls_certificate_expiry_timestamp_seconds{certificate="server"}'
RUNNING, MOVED = 'leadsman_move_plan_state{state="running"}', 'leadsman_move_plan_moves{outcome="moved"}'
SUSPECT = 'leadsman_node_suspect{node="edge-1",verdict="dead",reason="silent"}'
WITHHELD = 'leadsman_withheld_failover{node="edge-1",reason="%s"}'
SIZE = 'leadsman_etcd_size_ratio{pod="leadsman-etcd-0"}'
DAY_SECONDS = 86400


class AlertCase(NamedTuple):
    """firing, quiet: series → values. at_minutes: when it is looked at. firing_too: another case of the first kind."""

    firing: dict[str, str]
    quiet: dict[str, str]
    at_minutes: int = 30
    firing_too: dict[str, str] | None = None


def gauge(series: str, firing: int, quiet: int = 0, at_minutes: int = 30) -> AlertCase:
    """Fires at one constant, and not at another."""
    return AlertCase({series: f"{firing}x200"}, {series: f"{quiet}x200"}, at_minutes)


def counter(series: str, step: int = 1) -> AlertCase:
    """Fires while it grows by so much a minute, and not while it stands."""
    return AlertCase({series: f"0+{step}x200"}, {series: "7x200"})


def chosen_reasons() -> list[str]:
    """Why nothing is done about a dead node where people chose so: nobody is woken up for that."""
    chosen: list[dict[str, Any]] = [
        {"unschedulable": True},
        {"taints": (Taint(SHUTDOWN_TAINT),)},
        {"annotations": {FAILOVER_ANNOTATION: "off"}},
    ]
    clusters = [cluster_of([], []), *(cluster_of([ClusterNode("n", **each)], []) for each in chosen)]
    reasons = [why_withheld("n", {}, each, 0, RecoveryBudget()) for each in clusters]
    return [*reasons, why_withheld("n", {}, clusters[0], 0, FAILOVER_OFF)]


CASES = {
    "AgentDown": gauge(AGENT, 0, 1),
    "NodesStale": AlertCase({FRESH: "1x60", **TWO_AGENTS}, {FRESH: "2x60", **TWO_AGENTS}),
    "NoProbeAnswers": gauge('leadsman_prober_fault{node="edge-1"}', 1),
    "PeerLossHigh": AlertCase({SENT: "0+960x60", LOST: "0+120x60"}, {SENT: "0+960x60", LOST: "0+60x60"}),
    "RttRegressed": AlertCase({RTT: "0.01x400 0.02x60"}, {RTT: "0.01x400 0.015x60"}, 440),
    "CollectorFailing": gauge('leadsman_collector_success{node="edge-1",collector="hwmon"}', 0, 1),
    "PodsNotFollowed": gauge('leadsman_pods_followed{node="edge-1"}', 0, 1),
    "RewardPluginOff": gauge('leadsman_reward_plugin_active{node="edge-1",plugin="connect"}', 0, 1),
    "EtcdOutOfSpace": counter('leadsman_report_failures_total{cause="OutOfSpace"}'),
    "EtcdFilling": AlertCase({SIZE: "0.6x60"}, {SIZE: "0.4x60"}),
    "EtcdManyLeases": counter("etcd_debugging_lease_granted_total", 2000),
    "EtcdMemberDown": gauge('up{job="leadsman/leadsman-etcd",pod="leadsman-etcd-0"}', 0, 1),
    "EtcdMemberDiffers": gauge('leadsman_etcd_member_differs{pod="leadsman-etcd-0"}', 1),
    "EtcdClientLimited": counter('leadsman_etcd_gateway_requests_total{pod="leadsman-etcd-0",outcome="limited"}', 10),
    "ExtenderDown": gauge(EXTENDER, 0, 1),
    "StateOld": AlertCase({FRESH: "0x60"}, {FRESH: "0x60", FRESH.replace('"a"', '"b"'): "1x60"}),
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
    "CertificateExpiring": gauge(EXPIRES, 10 * DAY_SECONDS, 20 * DAY_SECONDS, 90),
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
        firing_too={'leadsman_controller_leader{pod="a"}': "1x10 stale"},
    ),
    "ControllerStopped": gauge("leadsman_controller_stopped", 1),
    "WithheldLong": gauge("leadsman_controller_withheld_actions", 3, at_minutes=90),
    "BindFailures": counter('leadsman_controller_bind_failures_total{cause="bind_refused"}'),
    "NodeSuspect": AlertCase({SUSPECT: "1x60"}, {SUSPECT: "1x20 stale"}),
    "FailedOver": counter('leadsman_recovery_actions_total{action="DeletePod",result="done"}'),
    "FailoverWithheld": AlertCase(
        {WITHHELD % "only 1 of 4 agents report": "1x60"}, {WITHHELD % reason: "1x60" for reason in chosen_reasons()}
    ),
    "BoundedPodUncovered": gauge('leadsman_bounded_pods{coverage="uncovered"}', 2),
    "PlaceholderLost": counter("leadsman_placeholders_lost_total"),
    "PlanStalled": AlertCase({RUNNING: "1x200", MOVED: "3x200"}, {RUNNING: "1x200", MOVED: "0+1x200"}, 120),
    "DeviceUnhealthy": gauge('leadsman_device_health_devices{state="faulty"}', 1),
}


@cache
def rules() -> list[dict[str, Any]]:
    spec = yaml.safe_load(FILE.read_text())["spec"]
    return [rule for group in spec["groups"] for rule in group["rules"]]


def alerts() -> list[dict[str, Any]]:
    return [rule for rule in rules() if "alert" in rule]


def promtool_test(name: str, series: dict[str, str], at_minutes: int, firing: bool) -> dict[str, Any]:
    count = f'sum(ALERTS{{alertname="Leadsman{name}",alertstate="firing"}}) > bool 0 or vector(0)'
    return {
        "name": f"{name} {'fires' if firing else 'is quiet'}",
        "interval": "1m",
        "input_series": [{"series": key, "values": values} for key, values in series.items()],
        "promql_expr_test": [
            {"expr": count, "eval_time": f"{at_minutes}m", "exp_samples": [{"labels": "{}", "value": int(firing)}]}
        ],
    }


@pytest.mark.integration
@pytest.mark.skipif(shutil.which("promtool") is None, reason="no promtool: apt-get install prometheus")
def test_each_alert_fires_in_its_case_and_is_quiet_close_to_it(tmp_path: Path) -> None:
    """Each beside the recording rules alone: promtool computes every rule of a file in each minute of each test."""
    files = []
    for name, case in CASES.items():
        kept = [rule for rule in rules() if rule.get("alert", f"Leadsman{name}") == f"Leadsman{name}"]
        rule_file, test_file = (tmp_path / f"{name}{kind}.yaml" for kind in ("", "-tests"))
        rule_file.write_text(yaml.safe_dump({"groups": [{"name": name, "rules": kept}]}))
        tests = [
            promtool_test(name, series, case.at_minutes, firing)
            for series, firing in ((case.firing, True), (case.quiet, False), (case.firing_too, True))
            if series is not None
        ]
        test_file.write_text(
            yaml.safe_dump({"rule_files": [str(rule_file)], "evaluation_interval": "1m", "tests": tests})
        )
        files.append(str(test_file))
    done = subprocess.run(["promtool", "test", "rules", *files], capture_output=True, text=True, check=False)
    assert done.stdout.count("SUCCESS") == len(CASES), done.stdout + done.stderr


def test_each_alert_has_a_case_and_says_what_happened_how_grave_it_is_and_where_to_read_on() -> None:
    assert {alert["alert"] for alert in alerts()} == {f"Leadsman{name}" for name in CASES}
    for alert in alerts():
        assert alert["labels"]["severity"] in ("critical", "warning", "info"), alert["alert"]
        assert alert["annotations"].keys() == {"summary", "description", "runbook"}, alert["alert"]


def test_each_alert_has_a_section_of_the_runbooks_and_no_section_is_of_none() -> None:
    sections = re.findall(r"^## (\w+)$", (ROOT / "docs/runbooks.md").read_text(), re.M)
    assert sections == [alert["alert"] for alert in alerts()]
    for alert in alerts():
        assert alert["annotations"]["runbook"] == f"docs/runbooks.md#{alert['alert'].lower()}"


# Dashboards have the shape that Grafana wants, and name metrics that exist; so do the rules.

COLUMNS = 24
"""Of Grafana's grid."""


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_panels_have_the_shape_that_grafana_s_schema_asks_for(path: Path) -> None:
    """What dashboard.jsonschema.json of grafana-foundation-sdk requires, and what it leaves to Grafana: unique ids,
    places within the grid that do not overlap, a refId a query, a data source that is a variable."""
    made = json.loads(path.read_text())
    assert {"uid", "title", "schemaVersion", "editable", "panels", "templating", "time"} <= made.keys()
    panels: list[dict[str, Any]] = made["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken = set[tuple[int, int]]()
    for panel in panels:
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert panel["type"] in {"row", "stat", "timeseries", "heatmap"}
        assert at["x"] + at["w"] <= COLUMNS
        assert not cells & taken, f"{panel['title']} covers another"
        taken |= cells
        targets = panel.get("targets", [])
        assert len({target["refId"] for target in targets}) == len(targets)
        assert {target["datasource"]["uid"] for target in targets} <= {"${datasource}"}
    assert made["templating"]["list"][0]["name"] == "datasource"


def test_every_metric_of_rules_and_dashboards_is_made_by_the_code() -> None:
    queried = [query for path in DASHBOARDS for _, queries in panels_of(path) for query in queries]
    expressions = [*(rule["expr"] for rule in rules()), *queried]
    used = {name for each in expressions for name in re.findall(r"(?<![:\w])leadsman_\w+", each)}
    assert len(used) > 60
    assert used - {name for family in metric_families() for name in family.series} == set()
