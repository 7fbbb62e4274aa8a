"""What stands between kube-scheduler and the extenders, as a Service does."""

import contextlib
import itertools
import json
import threading
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.error import URLError
from urllib.request import Request, urlopen

from tests.leadsman_process import LeadsmanProcess


class ExtendersInTurn:
    """Sends each request to the next of the extenders that answers.

    extenders: may be altered.
    filtered: the pod of each /filter that was answered, in order.
    before_answer: called with the verb and the extender that answered it, before kube-scheduler has the answer.
    """

    def __init__(self, extenders: Sequence[LeadsmanProcess]) -> None:
        self.extenders = [*extenders]
        self.filtered: list[str] = []
        self.before_answer: Callable[[str, LeadsmanProcess], None] = lambda *_: None
        turn, outer = itertools.count(), self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                for _ in range(len(outer.extenders)):
                    extender = outer.extenders[next(turn) % len(outer.extenders)]
                    try:
                        with urlopen(Request(extender.url + self.path, body), timeout=10) as answer:
                            answered = answer.read()
                    except URLError:
                        continue
                    outer.before_answer(self.path, extender)
                    if self.path == "/filter":
                        outer.filtered.append(json.loads(body)["Pod"]["metadata"]["name"])
                    with contextlib.suppress(ConnectionError):  # kube-scheduler ends before the extenders do
                        self._reply(answered)
                    return
                self.send_error(503)

            def _reply(self, answered: bytes) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(answered)))
                self.end_headers()
                self.wfile.write(answered)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def __enter__(self) -> "ExtendersInTurn":
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()
