"""`leadsman` as a whole: how it reads its flags and how it ends."""

import argparse
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import ModuleType

import msgspec
import pytest

from extender.api.decisions import DecisionRow
from extender.api.requests import ListPage
from leadsman.cli.flags.options import CommandFailed
from leadsman.cli.main import COMMANDS, EXIT_BROKEN_PIPE, EXIT_FAILED, build_parser, main

LEADSMAN = [sys.executable, "-m", "leadsman.cli.main"]


class LongPage(BaseHTTPRequestHandler):
    """Decisions that are more than a pipe holds."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        row = DecisionRow("2026-01-31T14:02:00Z", "e", "shop/cart", "u", "filter", 1, 1, {}, [], "")
        self.wfile.write(msgspec.json.encode(ListPage([row] * 20_000, None, 20_000)))

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 the base class's name
        return


@pytest.fixture
def long_page() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), LongPage) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_reader_that_stops_early_ends_it_quietly(long_page: str) -> None:
    command = [*LEADSMAN, "explain", "-A", "--extender", long_page]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as explain:
        assert explain.stdout
        assert explain.stderr
        assert explain.stdout.readline().startswith(b"POD ")
        explain.stdout.close()
        assert explain.stderr.read() == b""
    assert explain.returncode == EXIT_BROKEN_PIPE


@pytest.mark.parametrize(
    "arguments",
    [
        ["--vers"],
        ["agent", "--node", "edge-1"],
        ["explain", "web-0", "--ext", "http://127.0.0.1:1"],
        ["simulate", "rewards", "--see", "2"],
    ],
)
def test_a_flag_is_never_abbreviated(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        build_parser({}).parse_args(arguments)
    assert ended.value.code == 2
    assert "leadsman" in capsys.readouterr().err


def test_no_command_sends_control_characters_of_strangers_to_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Once for all commands: what a server says may hold anything that a pod's owner wrote."""

    def write_all(_: argparse.Namespace) -> int:
        sys.stdout.write("red \x1b[31m, bell \x07\tone line\n")
        sys.stderr.write("back \x9b2J\n")
        raise CommandFailed("refused: \x1b]0;title\x07")

    toy = ModuleType("leadsman.cli.toy")
    toy.options, toy.main = (lambda _: None), write_all  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "leadsman.cli.toy", toy)
    monkeypatch.setitem(COMMANDS, "toy", "play")
    assert main(["toy"]) == EXIT_FAILED
    shown = capsys.readouterr()
    assert shown.out == "red \\x1b[31m, bell \\x07\tone line\n"
    assert shown.err == "back \\x9b2J\nleadsman toy: refused: \\x1b]0;title\\x07\n"
