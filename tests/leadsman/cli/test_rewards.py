"""`leadsman rewards` against a server that notes what it was asked."""

import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from leadsman.cli.main import main


class Extender(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        accept = self.headers["Accept"]
        text = f"{self.path} {accept}"
        self.wfile.write(json.dumps(text).encode() if accept == "application/json" else text.encode())

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
        (["--type", "a b", "--json"], '"/rewards?type=a+b application/json"'),
    ],
)
def test_it_asks_for_what_is_wanted(url: str, flags: list[str], asked: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rewards", "--extender", url, *flags]) == 0
    assert capsys.readouterr().out == f"{asked}\n"


def test_tls_that_is_spoken_to_in_plain_http_is_said_with_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    """It closes the connection without an answer."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        closing = threading.Thread(target=lambda: server.accept()[0].close())
        closing.start()
        assert main(["rewards", "--extender", f"http://127.0.0.1:{server.getsockname()[1]}"]) == 1
        closing.join()
    assert "https with certificates" in capsys.readouterr().err


def test_https_without_certificates_names_the_flag(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rewards", "--extender", "https://127.0.0.1:1"]) == 1
    assert "--certs DIR" in capsys.readouterr().err


def test_what_is_no_url_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["rewards", "--extender", "edge-1:9001"])
    assert "'edge-1:9001': want https://HOST:PORT" in capsys.readouterr().err


def test_no_extender_is_said_with_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rewards", "--extender", "http://127.0.0.1:1"]) == 1
    assert "Set the extender's address with --extender URL" in capsys.readouterr().err
