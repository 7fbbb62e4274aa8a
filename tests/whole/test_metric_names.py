"""One meaning for a metric name: every family of the three processes, each with everything switched on."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from tests.testbed.scripted_api_server import ApiServerThread
from tests.waiting import blocked_until as until
from tests.whole.conftest import shop_pod
from website.metrics_page import Family as Documented
from website.metrics_page import metric_families

SHARED_PREFIXES = (
    "leadsman_apiserver_",
    "leadsman_contradicted_",
    "leadsman_delay_source_",
    "leadsman_estimates_",
    "leadsman_implausible_",
    "leadsman_plugin_",
    "leadsman_policy_",
    "leadsman_state_",
    "leadsman_telemetry_",
)
"""Of what extender and controller both follow, by the same code in leadsman.sources."""

IN_ALL = {"leadsman_build_info"}
STANDARD_PREFIXES = ("process_", "python_")
"""Of prometheus_client itself, by the names that dashboards of any Python process use."""

WITHOUT_SUBJECT = ("Of ", "Since ", "Those ", "Not ", "It ", "In ")
"""How a HELP begins that can only be read below another one."""

LAST = {
    "agent": {"leadsman_incidents_total", "leadsman_peer_rtt_p50_seconds", "leadsman_memory_total_bytes"},
    "extender": {
        *("leadsman_estimates_pairs", "leadsman_reward_nodes"),
        *("leadsman_extender_decisions_total", "leadsman_extender_placeholders"),
    },
    "controller": {"leadsman_estimates_pairs", "leadsman_controller_planned_actions", "leadsman_node_verdicts"},
}
"""Process → families that have a sample when all have."""

POLICY = "/apis/telemetry.intel.com/v1alpha1/namespaces/d/taspolicies/p"
RULE = {"metricname": "memory_available_ratio", "operator": "LessThan", "target": 0}
SHOP = "/api/v1/namespaces/d/pods/shop-0"


class Family(NamedTuple):
    """labels: of the samples, without what the type itself adds; None while there is no sample."""

    kind: str
    help: str
    labels: frozenset[str] | None


Families = dict[str, Family]


def parse(text: str) -> Families:
    """Name as Prometheus stores it → its family."""
    return {
        one.name + ("_total" if one.type == "counter" else ""): Family(one.type, one.documentation, labels_of(one))
        for one in text_string_to_metric_families(text)
    }


def labels_of(one: Metric) -> frozenset[str] | None:
    return frozenset(key for each in one.samples for key in each.labels) - {"le"} if one.samples else None


def differ(families: Iterable[Family]) -> bool:
    """Whether processes mean different things by one name."""
    return len({(one.kind, one.help) for one in families}) > 1 or len({one.labels for one in families} - {None}) > 1


@pytest.fixture
def api() -> Iterator[ApiServerThread]:
    with ApiServerThread() as one:
        one.put(SHOP, shop_pod("a"))
        one.put(POLICY, {"spec": {"strategies": {"deschedule": {"rules": [RULE]}}}})
        for node in ("a", "b", "c", "d", "e"):
            one.put(f"/api/v1/nodes/{node}", {"metadata": {}})
        yield one


@pytest.fixture
def families(start: Any, agent: Any, api: ApiServerThread, tmp_path: Any) -> dict[str, Families]:
    """Process → its families, once each shows those that need data first."""
    matrix, metadata, policy = tmp_path / "matrix.txt", tmp_path / "nodes.json", tmp_path / "policy.yaml"
    matrix.write_text("0 12\n11 0\n")
    metadata.write_text('{"x": 0, "y": 1}')
    policy.write_text("delay: {statistic: p50}\n")
    agents = [agent(node, number, "--kube-api", api.url) for number, node in enumerate("abcde", start=1)]
    same = ["--delay-matrix", str(matrix), "--delay-metadata", str(metadata), "--policy", str(policy)]
    same += ["--telemetry", "agents", "--kube-api", api.url]
    extender = start("extender", *same, "--self-healing")
    controller = start("controller", *same, "--node-health", "report")
    found = {"agent": agents[0], "extender": extender, "controller": controller}
    until(lambda: agents[0].metric("leadsman_pods") == 1, "the pod seen")
    api.put(SHOP, shop_pod("a", restarts=1))
    until(lambda: all(each.get("/metrics")[0] == 200 for each in found.values()), "all answer")
    extender.post("filter", {"Pod": {"metadata": {"name": "p", "namespace": "d"}}, "NodeNames": ["a", "b"]})
    shown: dict[str, Families] = {}
    for name, process in found.items():

        def complete(name: str = name, process: Any = process) -> bool:
            shown[name] = parse(process.get("/metrics")[1])
            return LAST[name] <= {key for key, one in shown[name].items() if one.labels is not None}

        until(complete, f"the {name}'s families")
    return shown


def test_a_metric_name_means_one_thing_in_every_process_and_its_help_stands_alone(
    families: dict[str, Families],
) -> None:
    homes: dict[str, dict[str, Family]] = {}
    for process, of in families.items():
        assert len(of) > 20, process
        for name, family in of.items():
            homes.setdefault(name, {})[process] = family
    standard = {name for name in homes if name.startswith(STANDARD_PREFIXES)}
    assert {"process_resident_memory_bytes", "process_start_time_seconds", "python_info"} <= standard
    assert [name for name in homes if not name.startswith("leadsman_") and name not in standard] == []
    assert [name for name in homes if name.endswith("_created")] == [], "no second series beside each counter"
    assert {name: of for name, of in homes.items() if differ(of.values())} == {}, "one type, one HELP, one label set"
    shared = {name: set(of) for name, of in homes.items() if len(of) > 1}
    in_all = IN_ALL | standard
    assert {name for name, processes in shared.items() if "agent" in processes} == in_all
    assert [name for name in shared.keys() - in_all if not name.startswith(SHARED_PREFIXES)] == []
    helps = {name: family.help for name, of in homes.items() for family in of.values()}
    assert len(set(helps.values())) == len(helps), "no two families are described by the same words"
    vague = {name: text for name, text in helps.items() if len(text.split()) < 2 or text.startswith(WITHOUT_SUBJECT)}
    assert vague == {}
    documented = {each.name: each for each in metric_families()}
    differing = {
        (process, name)
        for process, of in families.items()
        for name, family in of.items()
        if name not in standard and not is_documented(family, process, documented.get(name))
    }
    assert differing == set(), "the reference of metrics is what the processes show"


def is_documented(shown: Family, process: str, documented: Documented | None) -> bool:
    if documented is None or process not in documented.processes:
        return False
    labels = frozenset(documented.labels) if shown.labels is None else shown.labels
    return (shown.kind, shown.help, labels) == (documented.kind, documented.help, frozenset(documented.labels))
