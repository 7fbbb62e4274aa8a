"""An extender that takes delays from elsewhere: static files and Goldpinger, without any agent."""

import json
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from leadsman.cli.demo import scheduler_request
from tests.waiting import blocked_until as until
from tests.whole.conftest import Start

NODES = ["edge-1", "edge-2", "edge-3"]


def kept(extender: Any, bound: str) -> list[str]:
    found: list[str] = extender.ask("filter", NODES, {"delay_edge-1": bound})["NodeNames"]
    return found


def explained(extender: Any) -> tuple[str, Any]:
    pod = scheduler_request.captured_args(NODES, {})["Pod"]["metadata"]
    name = f"{pod['namespace']}/{pod['name']}"
    return extender.told(name), extender.api(f"/pods/{name}")


def placed(extender: Any, labels: dict[str, str]) -> None:
    extender.ask("prioritize", extender.ask("filter", NODES, labels)["NodeNames"], labels)


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """edge-1 to edge-2 12 ms (11 back), to edge-3 40 ms."""
    matrix, metadata = tmp_path / "matrix.txt", tmp_path / "nodes.json"
    matrix.write_text("0 12 40\n11 0 38\n40 38 0\n")
    metadata.write_text('{"edge-1": 0, "edge-2": 1, "edge-3": 2}')
    return matrix, metadata


def test_a_bound_holds_on_a_static_matrix_that_is_reloaded(start: Start, files: tuple[Path, Path]) -> None:
    matrix, metadata = files
    given = ["--delay-matrix", str(matrix), "--delay-metadata", str(metadata), "--initial-layers", "15"]
    extender = start("extender", *given)
    until(lambda: extender.api("/state"), "up")
    assert kept(extender, "25") == ["edge-1", "edge-2"]
    layers = {"15 ms": [["edge-1", "edge-2"]]}
    until(lambda: extender.api("/delays/layers")["layers"] == layers, "layers are made")
    placed(extender, {"delay_edge-1": "50"})
    text, data = explained(extender)
    assert "static" in text
    assert "nodes that passed within 15 ms: edge-1, edge-2 | edge-3" in text
    assert data["node_groups"] == {"15 ms": [["edge-1", "edge-2"], ["edge-3"]]}
    matrix.write_text("0 x 20\n11 0 38\n20 38 0\n")
    until(lambda: 'row 0 (line 1), column 1: got \\"x\\"' in extender.get("/api/v1/overview")[1], "the slip is told")
    assert kept(extender, "25") == ["edge-1", "edge-2"]
    matrix.write_text("0 12 20\n11 0 38\n20 38 0\n")
    until(lambda: kept(extender, "25") == NODES, "the new matrix is used")
    assert 'leadsman_delay_source_up{source="static"} 1.0' in extender.get("/metrics")[1]


@pytest.fixture
def goldpinger(tmp_path: Path) -> Iterator[str]:
    """edge-1 measured edge-2 in less than 1 ms and could not reach edge-3."""
    results = {
        "gp-2": {"OK": True, "HostIP": "edge-2"},
        "gp-3": {"OK": False, "HostIP": "edge-3", "response-time-ms": 300},
    }
    reporter = {"OK": True, "HostIP": "edge-1", "response": {"podResults": results}}
    (tmp_path / "check_all").write_text(json.dumps({"responses": {"gp-1": reporter}}))
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=str(tmp_path))) as server:
        threading.Thread(target=server.serve_forever).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_bound_holds_on_what_goldpinger_measured(start: Start, goldpinger: str) -> None:
    extender = start("extender", "--goldpinger", goldpinger)
    until(lambda: 'leadsman_delay_source_up{source="goldpinger"} 1.0' in extender.get("/metrics")[1], "polled")
    assert kept(extender, "1") == ["edge-1", "edge-2"]
    assert kept(extender, "0.5") == ["edge-1"]
    assert kept(extender, "1000") == ["edge-1", "edge-2"], "who did not answer has no delay"
    placed(extender, {"delay_edge-1": "1"})
    assert "goldpinger" in explained(extender)[0]
