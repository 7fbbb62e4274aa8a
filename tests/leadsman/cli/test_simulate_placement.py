"""`leadsman simulate placement`, as a user calls it."""

import json
from pathlib import Path
from typing import Any

import pytest

from leadsman.cli.main import main

DATA = Path(__file__).parents[2] / "data"
DEMO = DATA / "edge_scheduler_demo"
DEMO_FILES = ["-d", str(DEMO / "delays.txt"), "-m", str(DEMO / "rows.json"), "-n", str(DEMO / "nodes.json"),
              "-p", str(DEMO / "requests"), "-s"]  # fmt: skip
PLANETLAB = f"network={DATA / 'rtt' / 'planetlab_1.txt.gz'}"
SIXTEEN = f"zones=1,racks=1,nodes=16,memory=16Gi,pods=128,replicas=1,bounded=1,near=2-8,placed=0,{PLANETLAB}"


def compared(capsys: pytest.CaptureFixture[str], *flags: str) -> dict[str, Any]:
    assert main(["simulate", "placement", *flags, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def without_seconds(found: dict[str, Any]) -> dict[str, Any]:
    for policy in found.values():
        for run in policy["runs"]:
            del run["seconds"]
    return found


def test_the_edge_scheduler_s_demo_requests_all_pass(capsys: pytest.CaptureFixture[str]) -> None:
    found = compared(capsys, *DEMO_FILES, "--policies", "online", "--batch", "1")["online"]
    node = {pod: place["node"] for pod, place in found["places"].items()}
    assert found["accepted"] == 1.0
    assert node["default/deployment1-0"] in ("edge-2", "edge-3")
    assert node["default/deployment2-0"] == "cloud-1"
    assert node["default/deployment3-0"] == node["default/deployment4-0"] == "edge-1"


def test_leadsman_accepts_all_and_loses_none_where_the_edge_rule_s_clusters_lose_pods(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = compared(capsys, "--generate", f"{SIXTEEN},sizes=1Gi,seed=1", "--policies", "online,edge-clusters")
    assert (found["online"]["accepted"], found["online"]["lost"]) == (1.0, 0.0)
    assert found["edge-clusters"]["lost"] > 0


def test_the_same_flags_give_the_same_numbers_but_for_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--generate", f"{SIXTEEN},seed=2", "--policies", "online,edge,edge-clusters"]
    assert without_seconds(compared(capsys, *flags)) == without_seconds(compared(capsys, *flags))


def test_a_cluster_in_which_no_pod_waits_is_refused_until_its_pods_are_taken_off(
    capsys: pytest.CaptureFixture[str],
) -> None:
    flags = ["simulate", "placement", "--generate", "nodes=2,pods=4", "--policies", "edge"]
    with pytest.raises(SystemExit):
        main(flags)
    assert "--from-scratch" in capsys.readouterr().err
    assert main([*flags, "--from-scratch"]) == 0
