"""Plugins in processes of their own: what they answer counts, and what they do wrong hurts nobody."""

import asyncio
import json
import time
from ast import literal_eval
from pathlib import Path

import psutil
import pytest
from msgspec import structs

from extender.decider import DecisionCore
from extender.plugins.process import FAILURES_UNTIL_OFF
from leadsman.decision.decide import FilterResult, ScoreResult
from leadsman.decision.model import CandidateNodes, PluginScore, PodInfo
from leadsman.decision.policy import PressurePolicy, parse
from leadsman.plugin import FILTERS_GROUP
from leadsman.state.records import Hardware
from leadsman.state.snapshot import Snapshot
from tests.extender.conftest import Extender, Fixed, args, starts
from tests.extender.plugins.conftest import NODES, Hosted, Hosts, policy
from tests.waiting import until

POD = PodInfo("shop", "web")
CANDIDATES = CandidateNodes(NODES)

HOSTILE = ["loops", "sleeps", "exits", "eats", "nan", "infinite", "garbage", "raises", "elsewhere"]


async def scored(hosted: Hosted, pod: PodInfo = POD) -> ScoreResult:
    """On a thread, as the extender's decisions are."""
    return await asyncio.to_thread(hosted.host.score_nodes, pod, CANDIDATES, hosted.inputs())


async def filtered(hosted: Hosted) -> FilterResult:
    return await asyncio.to_thread(hosted.host.filter_nodes, POD, CANDIDATES, hosted.inputs())


async def score_of(hosted: Hosted, name: str) -> PluginScore:
    """The plugin's score in one decision."""
    return next(score for score in (await scored(hosted)).plugin_scores if score.plugin == name)


async def good_score(hosted: Hosted) -> PluginScore:
    return await hosted.until_answer(lambda: score_of(hosted, "good"), lambda score: not score.neutral)


async def test_a_node_that_reported_is_asked_about_with_its_new_values(hosts: Hosts):
    async with hosts(policy(scores="good")) as hosted:
        await good_score(hosted)
        changed = structs.replace(hosted.snapshot.nodes["node-0"], hardware=Hardware({"load1_per_cpu": 1.0}))
        hosted.snapshot = Snapshot({**hosted.snapshot.nodes, "node-0": changed})
        assert (await good_score(hosted)).values["node-0"] == 1.0


async def test_a_node_whose_agent_left_is_not_fresh_to_a_plugin(hosts: Hosts):
    async with hosts(policy(scores="good")) as hosted:
        assert "node-0" in (await good_score(hosted)).values
        hosted.snapshot = Snapshot({name: state for name, state in hosted.snapshot.nodes.items() if name != "node-0"})
        assert "node-0" in (await good_score(hosted)).unknown


async def test_a_filter_that_must_fail_closed_is_closed_while_it_starts(hosts: Hosts):
    async with hosts(policy(filters="strict", more=", on_failure: refuse")) as hosted:
        hosted.policy = policy(filters="strict", more=", on_failure: refuse, deadline_ms: 60")
        assert not (await filtered(hosted)).kept


async def test_what_would_have_helped_in_an_old_decision_is_asked_of_plugins_too(hosts: Hosts):
    async with hosts(policy(filters="strict")) as hosted:

        async def long_ago() -> FilterResult:
            old = structs.replace(hosted.inputs(), now=time.monotonic() - 3600.0)
            return await asyncio.to_thread(hosted.host.filter_nodes, POD, CANDIDATES, old)

        await hosted.until_answer(long_ago, lambda result: result.kept == NODES[::2])


async def test_a_filter_and_a_score_of_one_name_fail_each_for_itself(hosts: Hosts):
    changes = list[tuple[str, str]]()
    both = parse("plugins: {filters: [{name: both, on_failure: refuse}], scores: [{name: both}]}")
    async with hosts(both) as hosted:
        hosted.host._on_change = lambda name, problem: changes.append((name, problem))
        the_filter = next(each for each in hosted.host.plugins if each.group == FILTERS_GROUP)
        the_filter._off_until, the_filter.is_active, the_filter.problem = float("inf"), False, "it ended"
        for _ in range(3):
            hosted.host.reconcile()
        active = next(iter(hosted.host.families())).samples
        assert (changes, [each.value for each in active]) == ([("both", "it refuses every node: it ended")], [0.0])


@pytest.mark.parametrize("name", HOSTILE)
async def test_a_hostile_score_is_neutral_and_then_off(hosts: Hosts, name: str):
    async with hosts(policy(scores=name)) as hosted:
        while hosted.plugins[name].failures < FAILURES_UNTIL_OFF:
            assert (await score_of(hosted, name)).neutral
        assert hosted.plugins[name].is_off
        assert (await score_of(hosted, name)).neutral.startswith(f"{name}: it is off: ")


async def test_a_late_filter_takes_no_time_from_one_that_answers_and_the_blame_is_its_own(hosts: Hosts):
    async with hosts(policy(filters="dozes strict")) as hosted:
        both = lambda result: hosted.plugins["dozes"].failures and result.kept == NODES[::2]  # noqa: E731
        await hosted.until_answer(lambda: filtered(hosted), both)


async def test_an_answer_that_is_there_counts_however_late_the_decision_looks(hosts: Hosts):
    async with hosts(policy(filters="strict", more=", deadline_ms: 100")) as hosted:
        (plugin,) = hosted.plugins.values()
        question = plugin.ask(POD, CANDIDATES, hosted.inputs())
        await until(question.done)
        places, _ = plugin.wait_for(question, time.monotonic() - 3600.0)
        assert len(places) == len(NODES)


async def test_what_a_plugin_forked_ends_with_it(hosts: Hosts, tmp_path: Path):
    async with hosts(policy(scores="forks")) as hosted:
        file = tmp_path / "child"
        asking = structs.replace(POD, labels={"file": str(file)})
        await hosted.until_answer(lambda: scored(hosted, asking), lambda _: file.exists() and file.read_text())
        child = int(file.read_text())
        await hosted.until_answer(lambda: scored(hosted, asking), lambda _: has_ended(child))


def has_ended(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


@pytest.mark.parametrize(
    ("name", "problem"),
    [("eats", "MemoryError"), ("garbage", "an answer of 1,734,439,522 bytes; at most 1,048,576")],
    ids=["memory", "length"],
)
async def test_the_reason_of_a_failure_is_kept(hosts: Hosts, name: str, problem: str):
    async with hosts(policy(scores=name)) as hosted:
        await hosted.until_answer(lambda: score_of(hosted, name), lambda score: problem in score.neutral)


@pytest.mark.parametrize(("name", "kept"), [("open", len(NODES)), ("closed", 0)])
async def test_a_filter_says_whether_it_fails_open_or_closed_also_where_there_is_no_decision(
    hosts: Hosts, name: str, kept: int
):
    def broken(*_):
        raise ZeroDivisionError

    async with hosts(policy(filters=name)) as hosted:
        assert len((await filtered(hosted)).kept) == kept
        core = DecisionCore(broken, fails_closed=hosted.host.fails_closed)
        async with starts(policy=Fixed(hosted.policy), core=core) as extender:
            answer = await extender.asked("/filter", args(NODES))
        assert (len(answer["NodeNames"]), len(answer["FailedAndUnresolvableNodes"])) == (kept, len(NODES) - kept)


async def test_a_refusal_without_a_reason_is_no_answer(hosts: Hosts):
    async with hosts(policy(filters="silent")) as hosted:
        said = "filter plugin silent fails closed: BadPlugin: it refuses 'node-0' without a reason"
        reasons = lambda result: {refusal.reason for refusal in result.refused.values()}  # noqa: E731
        await hosted.until_answer(lambda: filtered(hosted), lambda result: reasons(result) == {said})


async def test_a_plugin_of_another_api_version_is_off(hosts: Hosts):
    async with hosts(policy(scores="old"), become_active=False) as hosted:
        await until(lambda: hosted.plugins["old"].is_off)
        assert "api_version is 0; must be 1" in hosted.plugins["old"].problem


async def test_its_process_has_no_environment_no_files_of_ours_and_dies_first(
    hosts: Hosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("LEADSMAN_ETCD_PASSWORD", "secret")
    async with hosts(policy(scores="looks")) as hosted:
        asking = structs.replace(POD, labels={"file": str(tmp_path / "seen")})
        await hosted.until_answer(lambda: scored(hosted, asking), lambda _: (tmp_path / "seen").exists())
        environment, descriptors, oom_score_adj = (tmp_path / "seen").read_text().split("\n")
        assert "secret" not in environment
        assert set(literal_eval(environment)) <= {"LANG", "LC_CTYPE", "OPENBLAS_NUM_THREADS", "PATH", "PYTHONPATH"}
        assert descriptors.count("socket") == 1, descriptors
        assert descriptors.count(",") == 0, descriptors
        assert oom_score_adj == "1000"


async def test_every_request_is_answered_whatever_plugins_do(hosts: Hosts):
    body = json.dumps({"Pod": {"metadata": {"name": "web"}}, "NodeNames": list(NODES)}).encode()
    plugins = policy(scores=" ".join(HOSTILE[:6]) + " good")
    others = structs.replace(plugins.scores, pressure=PressurePolicy(weight=0))
    async with hosts(structs.replace(plugins, scores=others)) as hosted:
        core = DecisionCore(hosted.host.filter_nodes, hosted.host.score_nodes)
        async with starts(hosted.snapshot, Fixed(hosted.policy), core=core) as extender:
            while hosted.plugins["loops"].failures < FAILURES_UNTIL_OFF:
                assert len(await extender.asked("/prioritize", body)) == len(NODES)
            await until(lambda: extender.workers.overdue == 0)
            best = await hosted.until_answer(lambda: best_score(extender, body), lambda best: best == 10)
            assert best, "the good one counts"


async def best_score(extender: Extender, body: bytes) -> int:
    return max(node["Score"] for node in await extender.asked("/prioritize", body))
