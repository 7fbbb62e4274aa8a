"""A start that cannot succeed ends with one clear line in the log, and without a traceback."""

from pathlib import Path

import pytest

from tests.testbed.scripted_api_server import ApiServerThread
from tests.waiting import blocked_until as until
from tests.whole.conftest import Start


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("extender --telemetry agents", "--telemetry needs an API server, which holds the policies; name it with "),
        ("extender --policy {folder}/policy.yaml", "$.scores.pressure.weight"),
        (
            "agent --node-name edge-1 --address 127.0.0.1 --plugins=flies",
            "--plugins flies: no installed package has a metric or reward of that name",
        ),
    ],
)
def test_what_cannot_be_used_is_named(command: str, said: str, start: Start, tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text("scores: {pressure: {weight: -1}}\n")
    process = start(*command.format(folder=tmp_path).split())
    assert process.child.wait(60) in (1, 2)
    assert said in process.log
    assert "Traceback" not in process.log


def test_a_second_agent_gives_up_naming_the_first_or_the_port_that_it_has(agent: Start) -> None:
    first = agent("edge-1", 1, "--owner", "pod-1").ready()
    same_node = agent("edge-1", 2, "--owner", "pod-2")
    same_port = agent("edge-2", 1, port=int(first.url.rpartition(":")[2]))
    assert same_node.child.wait(60) == same_port.child.wait(60) == 1
    assert "another agent (owner pod-1) owns the records of node edge-1; this agent is pod-2" in same_node.log
    assert "address already in use" in same_port.log
    assert "Traceback" not in same_node.log + same_port.log
    assert first.get("/readyz")[0] == 200


def test_a_bad_token_file_is_named_and_the_process_goes_on_once_it_is_good(start: Start, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_bytes(b"\xff\xfe")
    why = f"token file {token}: it holds no bearer token; it must be one line of ASCII without spaces"
    with ApiServerThread(token="good") as api:
        process = start("controller", "--kube-api", api.url, "--kube-token-file", str(token))
        until(lambda: why in process.log, "the file named")
        assert process.get("/healthz")[0] == 200
        token.write_text("good\n")
        until(lambda: "are watched again" in process.log, "the file read again")
        assert process.stop() == 0
    assert "Traceback" not in process.log
