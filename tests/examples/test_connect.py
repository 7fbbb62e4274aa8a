"""The example of a reward: how long a pod takes to accept a connection."""

import socket
from typing import TYPE_CHECKING

import pytest

from leadsman.plugin import RunningPod

if TYPE_CHECKING:
    from tests.examples.conftest import Example


def pod(port: int | None) -> RunningPod:
    annotations = {} if port is None else {"example.com/connect-port": str(port)}
    return RunningPod("shop", "web", "uid", annotations=annotations, address="127.0.0.1")


def test_a_pod_that_listens_costs_the_time_until_the_connection_stands(example: "Example") -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        costs = example("connect").Connect().costs(pod(listening.getsockname()[1]))
    assert costs.keys() == {"connect_seconds"}
    assert costs["connect_seconds"] > 0


def test_a_pod_that_does_not_listen_raises(example: "Example") -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    with pytest.raises(ConnectionRefusedError):
        example("connect").Connect().costs(pod(port))


def test_a_pod_that_names_no_port_is_not_observed(example: "Example") -> None:
    assert example("connect").Connect().costs(pod(None)) == {}
