"""The examples of plugins: each is small and does what it says, and there is one of each kind."""

import importlib.util
import socket
from pathlib import Path
from types import ModuleType

import pytest

from leadsman.plugin import Node, Pod, RunningPod
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
