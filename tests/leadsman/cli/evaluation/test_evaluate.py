"""`leadsman evaluate` on files: violations, labels, a request's answers, exit codes."""

import gzip
import json
import shutil
import subprocess
import sys
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
    assert answer["refused"] == {
        "b": "telemetry policy health-metric-demo/scheduling-policy is violated: node_metric LessThan 10"
    }
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
        ("metrics", "m: {a: nonsense}", "m.a: 'nonsense' is not a quantity"),
        ("metrics", "m: 7", "m: got 7, want {NODE: QUANTITY}"),
        ("metrics", "[", "want"),
        ("metrics", "{}\n---\n{}\n", "got 2 documents, want one"),
        ("nodes", "{items: 7}", "want a list of names"),
        ("nodes", "[7]", "[0]: "),
        ("nodes", '["a", {"metadata": {"name": "b", "name": "c"}}]', "[1]: got 'name' twice, allowed once"),
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


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("policies", "kind: List\nitems: 7", "items: got 7, want a list"),
        ("metrics", "m: {a: 2026-13-45}", "m.a: '2026-13-45' is not a quantity"),
        ("metrics", "m: {a: 0b_}", "invalid literal for int"),
        ("metrics", "m: {a: 1:30}", "m.a: '1:30' is not a quantity"),
        ("metrics", "m: {a: 1}\nm: {a: 2}", "line 2, column 1: got 'm' twice, allowed once"),
        ("metrics", '{"m": {"a": 1, "a": 2}}', "got 'a' twice, allowed once"),
    ],
)
def test_what_once_was_a_traceback_or_passed_is_named_with_its_file(
    write: Any, metrics: str, name: str, content: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write(f"{name}-bad.yaml", content)
    given = {"policies": str(DOCUMENTED), "metrics": metrics, name: file}
    with pytest.raises(SystemExit) as ended:
        main(["evaluate", *(word for flag, path in given.items() for word in (f"--{flag}", path))])
    assert ended.value.code == 2
    assert f"{file}: " in (told := capsys.readouterr().err)
    assert said in told


def test_json_may_be_indented_by_tabs(run: Run, write: Any) -> None:
    file = write("metrics.json", json.dumps({"node_metric": {"b": 5}}, indent="\t"))
    code, report = run("--metrics", file)
    assert (code, [each["node"] for each in report["violations"]]) == (0, ["b"])


@pytest.mark.parametrize(("version", "got"), [("telemetry.intel.com/v1", "telemetry.intel.com/v1"), (None, "nothing")])
def test_another_version_of_the_api_is_refused_as_the_api_server_does(
    run: Run, metrics: str, write: Any, version: str | None, got: str
) -> None:
    plain = {"apiVersion": version, "kind": "TASPolicy", "metadata": {"name": "p"}, "spec": {}}
    code, report = run("--policies", write("p.json", plain), "--metrics", metrics)
    (problem,) = report["problems"]
    assert (code, problem["field"], problem["refused"]) == (1, "apiVersion", True)
    assert problem["message"] == f"got {got}, allowed is telemetry.intel.com/v1alpha1"


def test_policies_are_counted_and_other_documents_too(run: Run, metrics: str, write: Any) -> None:
    _, report = run("--policies", write("bad.yaml", BAD), "--metrics", metrics)
    assert (report["policies"], report["other_documents"]) == (2, 1)


@pytest.mark.parametrize("content", ['{"kind": "List", "items": []}', "kind: TASPolicyList\nitems:\n", "# none\n"])
def test_no_policies_at_all_take_every_label_of_theirs_away(run: Run, metrics: str, write: Any, content: str) -> None:
    nodes = write("nodes.json", {"items": [{"metadata": marked("gone", "ns/gone")}]})
    code, report = run("--policies", write("none.yaml", content), "--metrics", metrics, "--nodes", nodes)
    assert (code, report["policies"]) == (0, 0)
    assert [(each["label"], each["value"]) for each in report["labels"]] == [("gone", None)]


def marked(policy: str, owner: str = "") -> Any:
    """A node's metadata with the mark of a policy, recorded as ours when it has an owner."""
    annotations = {OWNERSHIP_ANNOTATION: json.dumps({policy: owner})} if owner else {}
    return {"name": "a", "labels": {policy: "violating"}, "annotations": annotations}


HOT = """
apiVersion: telemetry.intel.com/v1alpha1
kind: TASPolicy
metadata: {name: hot, namespace: ns}
spec: {strategies: {deschedule: {rules: [{metricname: heat, operator: GreaterThan, target: 100}]}}}
"""


def test_a_mark_that_only_hysteresis_keeps_is_said(run: Run, write: Any) -> None:
    nodes = write("nodes.json", {"items": [{"metadata": marked("hot", "ns/hot")}]})
    policies, values = write("hot.yaml", HOT), write("metrics.yaml", "heat: {a: 90}")
    _, report = run("--policies", policies, "--metrics", values, "--nodes", nodes)
    assert report["labels"] == []
    assert report["kept_by_hysteresis"] == [
        "a: hot=violating: no longer violated, but the value is not yet back by 20% of the target"
    ]


@pytest.mark.parametrize(("more", "removed"), [([], []), (["--adopt"], ["hot"])])
def test_adopt_takes_over_what_the_original_left(run: Run, write: Any, more: list[str], removed: list[str]) -> None:
    nodes = write("nodes.json", {"items": [{"metadata": marked("hot")}]})
    policies, values = write("hot.yaml", HOT), write("metrics.yaml", "heat: {a: 1}")
    _, report = run("--policies", policies, "--metrics", values, "--nodes", nodes, *more)
    assert [each["label"] for each in report["labels"]] == removed
    assert bool(report["withheld"]) is not bool(removed)


def test_a_pod_whose_policy_is_refused_is_told_so(run: Run, metrics: str, write: Any) -> None:
    body = write("body.json", request("a", policy="bad", namespace="ns"))
    _, report = run("--policies", write("bad.yaml", BAD), "--metrics", metrics, "--request", body)
    assert (report["answer"]["missing"], report["answer"]["policy_refused"]) == (False, True)


def test_a_file_may_be_standard_input(write: Any, metrics: str) -> None:
    command = [sys.executable, "-m", "leadsman.cli.main", "evaluate", "--json", "--policies", "-", "--metrics", metrics]
    ran = subprocess.run(command, input=HOT, capture_output=True, text=True, check=False)
    assert (ran.returncode, json.loads(ran.stdout)["policies"]) == (0, 1)


def test_standard_input_can_be_one_file_only(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["evaluate", "--policies", "-", "--metrics", "-"])
    assert "standard input can be only one of them" in capsys.readouterr().err


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


def test_a_policy_file_can_be_used_or_is_refused_with_the_place(write: Any, capsys: pytest.CaptureFixture[str]) -> None:
    good = write("good.yaml", "scores: {nearest: {weight: 3}}")
    assert main(["evaluate", "--policy", good]) == 0
    assert capsys.readouterr().out.endswith(" can be used\n")
    bad = write("bad.yaml", "scores: {nearest: {weight: -3}}")
    with pytest.raises(SystemExit) as caught:
        main(["evaluate", "--policy", bad])
    assert caught.value.code == 2
    assert f"{bad}: $.scores.nearest.weight" in capsys.readouterr().err
