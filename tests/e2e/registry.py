"""A registry that has one image under every name that it does not know: what demos' pods name is not pulled here."""

import hashlib
import json
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

PORT = 5000
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"


def serve_images(layouts: Mapping[str, Path], other: Path, address: str, port: int = PORT) -> None:
    """Answers, until the process ends, for the images of these OCI layouts, by name, and of `other` for all else.

    https://github.com/opencontainers/distribution-spec
    """

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            # containerd adds "?ns=docker.io" to what it asks a mirror.
            *_, name, kind, reference = ["", *urlsplit(self.path).path.rstrip("/").split("/")]
            body = b"{}"
            if kind in ("manifests", "blobs"):
                layout = layouts.get(name, other)
                path = _blob(layout, reference) if reference.startswith("sha256:") else _manifest(layout)
                if not path.is_file():
                    self.send_error(404)
                    return
                body = path.read_bytes()
            self.send_response(200)
            self.send_header("Content-Type", _MANIFEST if kind == "manifests" else "application/octet-stream")
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Docker-Content-Digest", f"sha256:{hashlib.sha256(body).hexdigest()}")
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer((address, port), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()


def _manifest(layout: Path) -> Path:
    index = json.loads((layout / "index.json").read_text())
    return _blob(layout, index["manifests"][0]["digest"])


def _blob(layout: Path, digest: str) -> Path:
    return layout / "blobs" / digest.replace(":", "/", 1)
