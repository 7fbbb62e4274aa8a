"""`leadsman state`, `nodes`, `delay`, `explain` against real extenders, at a URL and through kubectl."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from unittest.mock import Mock

import aiohttp
import pytest
import yaml

from extender.api.requests import POSTS_AT_ONCE
from leadsman.cli import explain
from leadsman.cli.extender_client import ExtenderApi, ExtenderError
from leadsman.cli.views import State
from leadsman.testbed.etcd import free_ports
from tests.extender.api.conftest import Api
from tests.extender.api.conftest import started as started_api
from tests.leadsman.cli.conftest import Called, extender_pod, started

THROUGH_KUBECTL = {"LEADSMAN_EXTENDER": "kubectl"}


async def test_nodes_are_a_table(extender: str, called: Called) -> None:
    code, out, _ = await called("nodes", "--extender", extender)
    titles, *rows = [line.split() for line in out.splitlines()]
    assert code == 0
    assert titles == ["NAME", "STATUS", "AGE", "PEERS", "RTT-MS"]
    assert [[row[0], row[1], *row[3:]] for row in rows] == [
        ["node-00000", "fresh", "2/2", "42.5"],
        ["node-00001", "fresh", "1/1", "5"],
        ["node-00002", "fresh", "1/1", "80"],
    ]


async def test_a_delay_has_both_directions_and_says_what_is_not_probed(extender: str, called: Called) -> None:
    near = (await called("delay", "node-00000", "node-00001", "--extender", extender))[1].splitlines()
    far = (await called("delay", "node-00001", "node-00002", "--extender", extender))[1].splitlines()
    assert [line.split()[:4] for line in near[1:3]] == [
        ["node-00000", "node-00001", "measured", "5"],
        ["node-00001", "node-00000", "measured", "5"],
    ]
    assert near[3].startswith("a decision uses 5 ms: measured by node-0000")
    assert [line.split()[2:4] for line in far[1:3]] == [["unknown", "-"], ["unknown", "-"]]
    assert far[3].startswith("a decision uses nothing: ")


async def test_a_node_that_does_not_exist_is_refused_with_the_nearest_name(extender: str, called: Called) -> None:
    code, _, err = await called("delay", "node-0001", "node-00000", "--extender", extender)
    assert code == 1
    assert "no node 'node-0001'; did you mean node-00001?" in err


async def test_explain_without_a_pod_lists_the_decisions_of_the_namespace(called: Called) -> None:
    async with started(decided=True) as ports:
        url = f"http://127.0.0.1:{ports['api']}"
        listed = (await called("explain", "--extender", url))[1].splitlines()
        elsewhere = (await called("explain", "-n", "shop", "--extender", url))[1]
        everywhere = json.loads((await called("explain", "-A", "-o", "json", "--extender", url))[1])
    assert listed[1].split()[0] == "default/cap-00000"
    assert elsewhere == "no decision is kept on a pod of the namespace shop\n"
    assert [(each["pod"], each["passed"], each["asked"]) for each in everywhere] == [("default/cap-00000", 3, 3)]


async def test_the_newest_decision_of_all_replicas_is_shown_whichever_made_it(called: Called, kubectl) -> None:
    """Of three replicas the first keeps no decision, and the third does not answer."""
    async with started() as first, started(decided=True) as second:
        pods = [extender_pod(f"extender-{each}") for each in "abc"]
        ports = {"extender-a": first, "extender-b": second, "extender-c": {"api": 1}}
        kubectl({"pods": pods}, ports, {"config view": "default"})
        nodes = await called("nodes", **THROUGH_KUBECTL)
        of_a_context = await called("nodes", "--context", "there")
        code, out, err = await called("explain", "cap-00000", **THROUGH_KUBECTL)
        missing = await called("explain", "other", **THROUGH_KUBECTL)
        kubectl({"pods": pods[1:2]}, ports, {"config view": "shop"})
        elsewhere = await called("explain", "cap-00000", **THROUGH_KUBECTL)
    assert (nodes[0], len(nodes[1].splitlines())) == (0, 4)
    assert of_a_context == nodes, "who names a cluster of kubectl's means kubectl"
    assert (code, out.startswith("decided ")) == (0, True)
    assert err.startswith("not asked: cannot reach extender-c: ")
    assert (missing[0], "cannot reach extender-c" in missing[2]) == (1, True), "it may keep the decision"
    assert "no decision on shop/cap-00000 is kept here" in elsewhere[2], "it is looked for in the context's namespace"


def test_a_replica_that_has_no_result_now_is_named_beside_the_newest_of_others(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    late, unknown = ExtenderError("no result within 5000 ms"), ExtenderError("no decision is kept here")
    unknown.status = 404
    monkeypatch.setattr(explain, "_ask", Mock(side_effect=[late, Mock(seconds_ago=3600.0), late, unknown]))
    assert explain._newest([Mock(), Mock()], "/pods/shop/p", False).seconds_ago == 3600.0
    assert "no result within" in capsys.readouterr().err
    with pytest.raises(ExtenderError, match="no decision is kept here"):
        explain._newest([Mock(), Mock()], "/pods/shop/p", False)
    assert "no result within" in capsys.readouterr().err


def test_what_an_extender_of_another_version_answers_is_said_to_be_unreadable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ExtenderApi, "read", lambda *_: b'{"overview": 1}')
    with pytest.raises(ExtenderError, match=r"extender-a .*another version.*: \$.overview: expected object, got int"):
        ExtenderApi("extender-a", "", "").get("/overview", State)


async def test_a_replica_that_does_not_answer_keeps_nobody_from_asking_another(called: Called, kubectl) -> None:
    """Its node has just died, and the API server still calls it ready."""
    async with started(decided=True) as api:
        kubectl({"pods": [extender_pod("extender-a"), extender_pod("extender-b")]}, {"extender-b": api})
        for words in (["nodes"], ["explain"]):
            code, shown, said = await called(*words, "--extender", "kubectl")
            assert code == 0
            assert "node-00000" in shown or "default/" in shown
            assert "extender-a" in said
        kubectl({"pods": [extender_pod("extender-a")]})
        assert (await called("nodes", "--extender", "kubectl"))[0] == 1


async def test_what_a_pod_s_owner_wrote_reaches_no_terminal_as_a_command(
    extender: str, called: Called, tmp_path: Path
) -> None:
    """An escape sequence in an annotation stands in the reason of a refusal."""
    written = {"leadsman.dev/delay": "n1: \x1b]0;pwned\x07\x1b[31m5"}
    (tmp_path / "pod.yaml").write_text(yaml.safe_dump({"kind": "Pod", "metadata": {"annotations": written}}))
    _, out, _ = await called("explain", "-f", str(tmp_path / "pod.yaml"), "--extender", extender)
    (tmp_path / "many.yaml").write_text("kind: Pod\n---\n" * (POSTS_AT_ONCE + 1))
    assert (await called("explain", "-f", str(tmp_path / "many.yaml"), "--extender", extender))[0] == 0
    _, _, err = await called("nodes", "\x1b[31mred", "--extender", extender)
    assert "pwned" in out
    assert "red" in err
    assert not any(ord(each) < 32 and each != "\n" for each in out + err)


async def test_watch_shows_the_page_again_until_it_is_interrupted(extender: str) -> None:
    command = (sys.executable, "-m", "leadsman.cli.main", "nodes", "-w", "--interval-seconds", "0.1")
    environ = {**os.environ, "LEADSMAN_EXTENDER": extender}
    watching = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE, env=environ)
    assert watching.stdout
    seen = [await asyncio.wait_for(watching.stdout.readline(), 60) for _ in range(8)]
    watching.send_signal(signal.SIGINT)
    await asyncio.wait_for(watching.communicate(), 60)
    assert [line.split()[0] for line in seen] == 2 * [b"NAME", b"node-00000", b"node-00001", b"node-00002"]
    assert watching.returncode == 130


# `leadsman page`, with a stand-in for kubectl and a real listener of the page behind it.


async def test_the_page_is_at_the_printed_address_until_kubectl_ends(kubectl) -> None:
    """Of two replicas that of the one which decided last is shown."""
    (port,) = free_ports(1)
    async with started_api() as idle, started_api() as api:
        api.decide("cart-1")
        pods = [extender_pod("extender-a"), extender_pod("extender-b")]
        kubectl({"pods": pods}, {"extender-a": {"api": port_of(idle)}, "extender-b": {"api": port_of(api)}})
        command = [sys.executable, "-m", "leadsman.cli.main", "page", "--port", str(port)]
        page = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
        assert page.stdout
        try:
            printed = (await page.stdout.readline()).decode()
            await page.stdout.readline()  # kubectl says that it forwards.
            async with aiohttp.ClientSession(printed.split()[1]) as session:
                async with session.get("/") as response:
                    assert (response.status, (await response.text())[:15]) == (200, "<!DOCTYPE html>")
                async with session.get("/api/v1/decisions") as shown:
                    assert (await shown.json())["total"] == 1
        finally:
            page.terminate()
            await page.wait()


def port_of(api: Api) -> int:
    return api.session._base_url.port or 0
