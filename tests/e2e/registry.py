"""A registry that has one image under every name: the demos' pods name images that this machine does not pull."""

import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

PORT = 5000
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"


def serve_image(layout: Path, address: str, port: int = PORT) -> None:
    """Answers, until the process ends, for the image of an OCI layout. https://github.com/opencontainers/distribution-spec"""
    index = json.loads((layout / "index.json").read_text())
    manifest = _blob(layout, index["manifests"][0]["digest"])

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            # containerd adds "?ns=docker.io" to what it asks a mirror.
            *_, kind, reference = urlsplit(self.path).path.rstrip("/").split("/")
            body = b"{}"
            if kind in ("manifests", "blobs"):
                path = _blob(layout, reference) if reference.startswith("sha256:") else manifest
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


def _blob(layout: Path, digest: str) -> Path:
    return layout / "blobs" / digest.replace(":", "/", 1)
