"""`leadsman evaluate` on files: violations, labels, a request's answers, exit codes."""

import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from leadsman.cli.main import main
from leadsman.kube.names import OWNERSHIP_ANNOTATION

DOCUMENTED = Path(__file__).parents[3] / "data" / "taspolicies"
NAMESPACE = "health-metric-demo"

Run = Callable[..., tuple[int, Any]]


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, Any], str]:
    def written(name: str, content: Any) -> str:
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(content if isinstance(content, str) else json.dumps(content))
        return str(file)

    return written


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """run("--metrics", file): exit code and the report, over the documented policies unless others are named."""

    def ran(*arguments: str) -> tuple[int, Any]:
        given = arguments if "--policies" in arguments else ("--policies", str(DOCUMENTED), *arguments)
        code = main(["evaluate", "--json", *given])
        return code, json.loads(capsys.readouterr().out)

    return ran


@pytest.fixture
def metrics(write: Any) -> str:
    one, two = "node_metric_1: {a: 101, b: 7}", "node_metric_2: {a: 101500m, b: 7}"
    return write("metrics.yaml", f"node_metric: {{a: 150, b: 5, c: 50}}\n{one}\n{two}\n")


def request(*nodes: str, policy: str = "scheduling-policy", namespace: str = NAMESPACE) -> Any:
    labels = {"telemetry-policy": policy} if policy else {}
    return {"Pod": {"metadata": {"name": "pod", "namespace": namespace, "labels": labels}}, "NodeNames": list(nodes)}


def test_violations_by_rule(run: Run, metrics: str) -> None:
    code, report = run("--metrics", metrics)
    assert code == 0
    assert [(v["strategy"], v["rule"], v["node"], v["value"]) for v in report["violations"]] == [
        ("labeling", "node_metric_1 GreaterThan 100", "a", "101"),
        ("labeling", "node_metric_2 GreaterThan 100", "a", "101.5"),
        ("dontschedule", "node_metric LessThan 10", "b", "5"),
        ("labeling", "node_metric GreaterThan 100", "a", "150"),
    ]
    assert report["unmeasured"] == ["freeRAM", "temperature"]


def test_the_labels_that_would_be_written(run: Run, metrics: str) -> None:
    _, report = run("--metrics", metrics)
    prefix = "telemetry.aware.scheduling"
    assert {(each["node"], each["label"], each["value"]) for each in report["labels"]} == {
        ("a", f"{prefix}.labels/foo", "2"),
        ("a", f"{prefix}.scheduling-policy/label1", "foo"),
        ("a", f"{prefix}.scheduling-policy/label2", "bar"),
    }


def test_labels_that_stand_are_compared_with(run: Run, metrics: str, write: Any) -> None:
    ours, key = "telemetry.aware.scheduling.labels/foo", "health-metric-demo/labels"
    standing = {
        "name": "b",
        "labels": {ours: "1", "other": "x"},
        "annotations": {OWNERSHIP_ANNOTATION: json.dumps({ours: key})},
    }
    nodes = write("nodes.json", {"items": [{"metadata": standing}, {"metadata": {"name": "c"}}]})
    _, report = run("--metrics", metrics, "--nodes", nodes)
    assert [(each["node"], each["label"], each["value"]) for each in report["labels"]] == [("b", ours, None)]


def test_a_request_is_answered_as_the_extender_does(run: Run, metrics: str, write: Any) -> None:
    _, report = run("--metrics", metrics, "--request", write("body.json", request("a", "b", "c", "d")))
    answer = report["answer"]
    assert answer["kept"] == ["a", "c", "d"]
    assert answer["refused"] == {"b": "telemetry policy health-metric-demo/scheduling-policy: node_metric LessThan 10"}
    assert answer["scores"] == {"a": 10, "c": 1, "d": 0}
    assert not answer["missing"]


def test_a_captured_request_of_a_real_scheduler_is_one(run: Run, metrics: str, write: Any) -> None:
    body = gzip.decompress((DOCUMENTED.parent / "captures" / "names-3-filter.json.gz").read_bytes()).decode()
    _, report = run("--metrics", metrics, "--request", write("body.json", body))
    assert (report["answer"]["policy"], len(report["answer"]["kept"])) == ("", 3)


def test_a_missing_policy_is_said(run: Run, metrics: str, write: Any) -> None:
    _, report = run("--metrics", metrics, "--request", write("body.json", request("a", "b", namespace="other")))
    assert report["answer"]["missing"]
    assert report["answer"]["kept"] == ["a", "b"]


BAD = """
apiVersion: telemetry.intel.com/v1alpha1
kind: TASPolicy
metadata: {name: bad, namespace: ns}
spec: {strategies: {dontschedule: {rules: [{metricname: m, operator: Above}]}}}
---
apiVersion: telemetry.intel.com/v1alpha1
kind: TASPolicy
metadata: {name: odd, namespace: ns}
spec: {strategies: {labeling: {rules: [{metricname: m, operator: Equals, labels: [x]}]}}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: none-of-ours}
"""


def test_a_bad_policy_is_refused_by_file_and_field_and_ends_with_1(run: Run, metrics: str, write: Any) -> None:
    folder = Path(write("policies/bad.yaml", BAD)).parent
    shutil.copy(DOCUMENTED / "labels.yaml", folder)
    code, report = run("--policies", str(folder), "--metrics", metrics)
    assert code == 1
    assert [(p["policy"], p["field"], p["refused"]) for p in report["problems"]] == [
        ("ns/bad", "spec.strategies.dontschedule.rules[0].operator", True),
        ("ns/odd", "spec.strategies.labeling.rules[0].labels[0]", False),
    ]
    assert all(p["file"].endswith("bad.yaml") for p in report["problems"])
    assert len(report["labels"]) == 1


@pytest.mark.parametrize(("more", "code"), [([], 0), (["--fail-on-violation"], 1)])
def test_a_violation_ends_with_1_only_when_asked(run: Run, metrics: str, more: list[str], code: int) -> None:
    assert run("--metrics", metrics, *more)[0] == code


def test_a_list_of_policies_as_kubectl_gives_it_is_read(run: Run, metrics: str, write: Any) -> None:
    rule = {"metricname": "m", "operator": "Equals"}
    spec = {"strategies": {"dontschedule": {"rules": [rule]}}}
    item = {"apiVersion": "telemetry.intel.com/v1alpha1", "kind": "TASPolicy", "metadata": {"name": "p"}, "spec": spec}
    code, report = run("--policies", write("all.json", {"kind": "List", "items": [item]}), "--metrics", metrics)
    assert (code, report["problems"]) == (0, [])


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("metrics", "m: {a: nonsense}", "m.a: got 'nonsense', want a Kubernetes quantity"),
        ("metrics", "m: 7", "m: got 7, want {NODE: QUANTITY}"),
        ("metrics", "[", "want"),
        ("metrics", "{}\n---\n{}\n", "got 2 documents, want one"),
        ("nodes", "{items: 7}", "want a list of names"),
        ("nodes", "[7]", "[0]: "),
        ("request", "{}", "$.Pod: null or absent"),
        ("policies", "kind: ConfigMap", "contains no TASPolicy"),
    ],
)
def test_a_file_that_cannot_be_read_ends_with_2_and_is_named(
    write: Any, metrics: str, name: str, content: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write(f"{name}-bad.yaml", content)
    given = {"policies": str(DOCUMENTED), "metrics": metrics, name: file}
    with pytest.raises(SystemExit) as ended:
        main(["evaluate", *(word for flag, path in given.items() for word in (f"--{flag}", path))])
    told = capsys.readouterr().err
    assert ended.value.code == 2
    assert file in told
    assert said in told or name == "metrics"


def test_without_the_two_flags_it_says_what_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["evaluate"])
    assert ended.value.code == 2
    assert "--policies and --metrics are both needed" in capsys.readouterr().err


def test_as_text(metrics: str, write: Any, capsys: pytest.CaptureFixture[str]) -> None:
    body = write("body.json", request("a", "b", "c"))
    assert main(["evaluate", "--policies", str(DOCUMENTED), "--metrics", metrics, "--request", body]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "not in the metrics: freeRAM" in lines
    assert any(line.split()[1:6] == ["dontschedule", "node_metric", "LessThan", "10", "b"] for line in lines)
    assert any("telemetry.aware.scheduling.labels/foo=2" in line for line in lines)
    assert any(line.split()[:3] == ["a", "kept", "10"] for line in lines)
    assert any(line.split()[:3] == ["b", "refused", "-"] for line in lines)
