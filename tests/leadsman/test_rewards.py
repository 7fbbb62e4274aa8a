"""`leadsman rewards` against a server that notes what it was asked."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from leadsman.main import main


class Extender(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(f"{self.path} {self.headers['Accept']}\n".encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 the base class's name
        return


@pytest.fixture
def url() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Extender) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("flags", "asked"),
    [
        ([], "/rewards? text/plain"),
        (["--type", "web", "--node", "edge-1"], "/rewards?type=web&node=edge-1 text/plain"),
        (["--type", "a b", "--json"], "/rewards?type=a+b application/json"),
    ],
)
def test_it_asks_for_what_is_wanted(url: str, flags: list[str], asked: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rewards", "--extender", url, *flags]) == 0
    assert capsys.readouterr().out == f"{asked}\n"


def test_no_extender_is_said_with_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rewards", "--extender", "http://127.0.0.1:1"]) == 1
    assert "Name it with --extender URL" in capsys.readouterr().err
