"""The examples of plugins: each is small and does what it says, and there is one of each kind."""

import importlib.util
import socket
from pathlib import Path
from types import ModuleType

import pytest

from leadsman.plugin import HostRoots, Node, Pod, RunningPod
from leadsman.plugin_loading import METHOD_OF_GROUP
from leadsman.state.metric_names import MEMORY_ERRORS

FILES = sorted((Path(__file__).parents[2] / "examples/plugins").glob("*.py"))


def example(name: str) -> ModuleType:
    """The module of that file."""
    (file,) = [file for file in FILES if file.stem == name]
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_there_is_one_of_each_kind_of_at_most_40_lines() -> None:
    texts = [file.read_text() for file in FILES]
    assert [text for text in texts if len(text.splitlines()) > 40] == []
    kinds = {group for group in METHOD_OF_GROUP for text in texts if f'entry-points."{group}"' in text}
    assert kinds == {*METHOD_OF_GROUP}


def test_a_filter_refuses_critical_pods_where_memory_had_errors() -> None:
    nodes = [Node(name, True, hardware={MEMORY_ERRORS: errors}) for name, errors in (("good", 0.0), ("bad", 3.0))]
    ecc = example("ecc").Ecc()
    assert ecc.refuse(Pod("shop", "web", {"tier": "critical"}), [*nodes, Node("silent")]).keys() == {"bad"}
    assert ecc.refuse(Pod("shop", "web"), nodes) == {}


def test_a_score_puts_quiet_nodes_first_for_pods_that_ask_for_it_and_leaves_a_silent_one_unknown() -> None:
    rates = {"idle": 0.0, "busy": 200e6}
    nodes = [Node(name, True, hardware={"network_receive_bytes_per_second": rate}) for name, rate in rates.items()]
    quiet = example("quiet").Quiet()
    scores = quiet.score(Pod("shop", "web", {"network": "quiet"}), [*nodes, Node("silent")])
    assert scores == {"idle": 1.0, "busy": 0.0}
    assert quiet.score(Pod("shop", "web"), nodes) == {}


def test_a_metric_reads_the_share_of_open_files_of_the_roots_that_it_is_given(tmp_path: Path) -> None:
    (tmp_path / "sys/fs").mkdir(parents=True)
    (tmp_path / "sys/fs/file-nr").write_text("250\t0\t1000\n")
    assert [sample.value for sample in example("files").Files().collect(HostRoots(proc=str(tmp_path)))] == [0.25]


def test_a_reward_is_the_time_until_a_pod_takes_a_connection() -> None:
    def pod(**annotations: str) -> RunningPod:
        return RunningPod("shop", "web", "uid", annotations=annotations, address="127.0.0.1")

    connect = example("connect").Connect()
    assert connect.costs(pod()) == {}
    with socket.create_server(("127.0.0.1", 0)) as listening:
        named = {"example.com/connect-port": str(listening.getsockname()[1])}
        assert connect.costs(pod(**named))["connect_seconds"] > 0
    with pytest.raises(ConnectionRefusedError):
        connect.costs(pod(**named))
