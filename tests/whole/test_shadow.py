"""A second policy is judged beside the live one, whatever becomes of the process that judges it."""

import json
import os
import random
import signal
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.request import urlopen

import psutil
import pytest

from extender.replay.report import replay
from leadsman.decision.policy import parse
from leadsman.sources.recording.reader import Recording
from leadsman.testbed.etcd import Etcd
from tests.whole.test_recording import NODES, Reports, schedule

if TYPE_CHECKING:
    from tests.leadsman_process import LeadsmanProcess
    from tests.whole.conftest import Start, Until

OTHER = "scores: {nearest: {weight: 0}, pressure: {weight: 50}}\n"
DECISIONS = "leadsman_shadow_decisions_total"


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / "shadow.yaml"
    path.write_text(OTHER)
    return path


@pytest.fixture
def reports(etcd: Etcd) -> Reports:
    made = Reports(etcd, random.Random(1))
    made.write(NODES)
    return made


@pytest.fixture
def shadowed(start: "Start", until: "Until", policy: Path, reports: Reports, tmp_path: Path) -> "LeadsmanProcess":
    """An extender with a shadow policy, that also records."""
    (tmp_path / "recording").mkdir()
    extender = start("extender", "--shadow-policy", str(policy), "--record-dir", str(tmp_path / "recording"))
    until(lambda: extender.get("/readyz")[0] == 200, "ready")
    until(lambda: extender.metric("leadsman_shadow_active") == 1, "the shadow process runs")
    return extender


def counts(extender: "LeadsmanProcess") -> dict[str, dict[str, int]]:
    """Result → verb → how many, without what was not judged."""
    found: dict[str, dict[str, int]] = {}
    for verb, by_result in page(extender)["results"].items():
        for result, number in by_result.items():
            found.setdefault(result, {})[verb] = number
    return found


def page(extender: "LeadsmanProcess") -> dict:
    with urlopen(f"{extender.ops_url}/shadow?format=json", timeout=5) as answer:
        return json.load(answer)


def judged(extender: "LeadsmanProcess") -> int:
    return sum(sum(by_verb.values()) for by_verb in counts(extender).values())


def shadow_process(extender: "LeadsmanProcess") -> int:
    children = psutil.Process(extender.child.pid).children()
    return next(child.pid for child in children if "extender.shadow.worker" in child.cmdline())


def test_it_counts_what_replay_of_the_same_requests_counts(
    shadowed: "LeadsmanProcess", reports: Reports, until: "Until", tmp_path: Path
) -> None:
    schedule(shadowed, reports, 60, random.Random(2))
    until(lambda: judged(shadowed) == 120, "all judged")
    assert shadowed.metric("leadsman_shadow_dropped_requests_total") == 0
    found, shown = counts(shadowed), page(shadowed)
    other = found["other_node"]["prioritize"]
    assert shadowed.metric(f'{DECISIONS}{{result="other_node",verb="prioritize"}}') == other
    assert len(shown["changes"]) >= min(other, 20)
    text = urlopen(f"{shadowed.ops_url}/shadow", timeout=5).read().decode()
    assert "other node" in text
    assert shown["changes"][0]["change"]["why"] in text
    assert shadowed.stop() == 0
    assert found == replay(Recording(tmp_path / "recording").requests(), parse(OTHER)).results
    assert "Traceback" not in shadowed.log


def test_a_process_that_is_killed_is_started_again_and_answers_go_on(
    shadowed: "LeadsmanProcess", reports: Reports, until: "Until"
) -> None:
    schedule(shadowed, reports, 10, random.Random(2))
    os.kill(shadow_process(shadowed), signal.SIGKILL)
    schedule(shadowed, reports, 10, random.Random(3))
    until(lambda: shadowed.metric("leadsman_shadow_starts_total") == 2, "a second process")
    before = judged(shadowed)
    schedule(shadowed, reports, 10, random.Random(4))
    until(lambda: judged(shadowed) >= before + 20, "the second process judges")
    assert "the process ended with code -9" in shadowed.log
    assert "Traceback" not in shadowed.log


@pytest.mark.slow
def test_a_process_that_hangs_costs_its_counts_and_no_answer(
    shadowed: "LeadsmanProcess", reports: Reports, until: "Until"
) -> None:
    os.kill(shadow_process(shadowed), signal.SIGSTOP)
    schedule(shadowed, reports, 2_500, random.Random(2))
    assert shadowed.metric("leadsman_shadow_dropped_requests_total") > 0
    os.kill(shadow_process(shadowed), signal.SIGCONT)
    until(lambda: judged(shadowed) > 0, "it judges what was kept")
    os.kill(shadow_process(shadowed), signal.SIGSTOP)
    assert shadowed.stop() == 0, "it does not wait for it at its end"


def test_the_policy_is_followed_and_a_bad_one_is_refused(
    shadowed: "LeadsmanProcess", reports: Reports, until: "Until", policy: Path
) -> None:
    first = page(shadowed)["policy"]
    policy.write_text("{}\n")
    until(lambda: page(shadowed)["policy"] != first, "the new policy")
    schedule(shadowed, reports, 20, random.Random(2))
    until(lambda: judged(shadowed) == 40, "all judged")
    assert counts(shadowed).keys() <= {"agree", "undecided"}, "it is the live policy"
    policy.write_text("scores: {nearest: {weight: -1}}\n")
    loaded = "leadsman_shadow_policy_load_success"
    until(lambda: shadowed.metric(loaded) == 0, "the bad policy refused")
    assert "$.scores.nearest.weight" in page(shadowed)["policy_problem"]


def test_the_process_leaves_with_its_extender(shadowed: "LeadsmanProcess", until: "Until") -> None:
    pid = shadow_process(shadowed)
    shadowed.kill()
    until(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE, "it has left")


def test_a_bad_policy_at_start_is_one_clear_line(start: "Start", policy: Path) -> None:
    policy.write_text("scores: 5\n")
    extender = start("extender", "--shadow-policy", str(policy))
    assert extender.child.wait(20) in (1, 2)
    assert str(policy) in extender.log
    assert "Traceback" not in extender.log
