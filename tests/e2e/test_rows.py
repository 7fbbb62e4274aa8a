"""The parts of the table that need no cluster."""

import hashlib
import json
import urllib.request
from pathlib import Path

import pytest

from leadsman.testbed.etcd import free_ports
from tests.e2e.__main__ import main
from tests.e2e.registry import serve_image
from tests.e2e.rows import NAMES


def test_each_row_has_a_name_of_its_own() -> None:
    assert len({*NAMES}) == len(NAMES)


def test_a_row_that_does_not_exist_is_refused_with_those_that_do(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--rows", "extender,lose-everything"])
    told = capsys.readouterr().err
    assert "'lose-everything' is no row; choose from extender, agents," in told


def test_the_registry_has_one_image_under_every_name(tmp_path: Path) -> None:
    manifest = b'{"schemaVersion": 2}'
    digest = hashlib.sha256(manifest).hexdigest()
    (tmp_path / "blobs/sha256").mkdir(parents=True)
    (tmp_path / "blobs/sha256" / digest).write_bytes(manifest)
    (tmp_path / "index.json").write_text(json.dumps({"manifests": [{"digest": f"sha256:{digest}"}]}))
    (port,) = free_ports(1)
    serve_image(tmp_path, "127.0.0.1", port)
    for reference in ("library/nginx/manifests/latest", f"chenw/rl-demo/blobs/sha256:{digest}?ns=docker.io"):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/v2/{reference}", timeout=5) as answer:
            assert answer.read() == manifest
            assert answer.headers["Docker-Content-Digest"] == f"sha256:{digest}"
