"""A controller's plan in an extender's API: real processes, real TLS, a real etcd."""

import json
import ssl
from collections.abc import Iterator
from http.client import RemoteDisconnected
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from msgspec import Struct

from leadsman.testbed.api_server_thread import ApiServerThread
from leadsman.testbed.etcd import free_ports
from tests.leadsman_process import LeadsmanProcess
from tests.testbed.certificates import CertificateAuthority

if TYPE_CHECKING:
    from tests.whole.conftest import Start, Until

HOST, POLICY = "127.0.0.1", "/apis/telemetry.intel.com/v1alpha1/namespaces/shop/taspolicies/hot"
RULE = {"metricname": "memory_available_ratio", "operator": "LessThan", "target": 0}
NOT_OURS = {"metadata": {"labels": {"hot": "violating"}}}
"""As somebody set it by hand: the controller would remove it, and leaves it alone."""


class Asked(Struct):
    """An extender with a page, and the controller that it asks."""

    controller: LeadsmanProcess
    page: str
    plan_port: int
    tls: Path

    def plan(self) -> Any:
        with urlopen(f"{self.page}/api/v1/plan", timeout=60) as response:
            return json.loads(response.read())

    def ask_controller(self, client: str) -> int:
        context = ssl.create_default_context(cafile=self.tls / "ca.crt")
        context.load_cert_chain(self.tls / f"{client}.crt", self.tls / f"{client}.key")
        with urlopen(f"https://{HOST}:{self.plan_port}/api/v1/plan", timeout=60, context=context) as response:
            return int(response.status)


@pytest.fixture
def api() -> Iterator[ApiServerThread]:
    with ApiServerThread() as server:
        server.put(POLICY, {"spec": {"strategies": {"deschedule": {"rules": [RULE]}}}})
        server.put("/api/v1/nodes/edge-1", NOT_OURS)
        yield server


@pytest.fixture
def asked(start: "Start", until: "Until", api: ApiServerThread, tmp_path: Path) -> Asked:
    tls = tmp_path / "tls"
    tls.mkdir()
    authority = CertificateAuthority()
    (tls / "ca.crt").write_text(authority.pem)
    authority.issue(HOST).write(tls, "tls")
    authority.issue("kube-scheduler").write(tls, "client")
    plan_port, replica_port, page_port = free_ports(3)
    controller = start(
        "controller",
        "--kube-api",
        api.url,
        f"--plan-listen={HOST}:{plan_port}",
        f"--plan-tls={tls}",
        f"--plan-client-name={HOST}",
    )
    extender = start(
        "extender",
        f"--replicas={HOST}:{replica_port}",
        f"--replica-listen={HOST}:{replica_port}",
        f"--replica-tls={tls}",
        f"--controllers={HOST}:{plan_port}",
        f"--page-listen={HOST}:{page_port}",
    )
    until(lambda: extender.get("/readyz")[0] == 200, "the extender is ready")
    return Asked(controller, f"http://{HOST}:{page_port}", plan_port, tls)


def test_the_api_shows_what_the_leader_holds_back_and_why(asked: Asked, agent: "Start", until: "Until") -> None:
    agent("edge-1", 1)
    plan = until(lambda: (shown := asked.plan())["withheld"] and shown, "what the leader holds back", 60)
    assert (plan["unknown"], plan["actions"], plan["unplanned"], plan["partial"]) == ("", [], [], [])
    (held,) = plan["withheld"]
    assert (held["kind"], held["object"]) == ("label node", "node edge-1, label hot")
    assert held["why"] == "hot=violating is not recorded as ours; --adopt takes it over"
    assert held["since"] <= plan["at"]


def test_a_controller_that_ended_leaves_the_plan_unknown_and_not_empty(asked: Asked, until: "Until") -> None:
    until(lambda: asked.plan()["leader"], "a leader", 60)
    asked.controller.kill()
    plan = asked.plan()
    assert plan["unknown"].startswith("the controller that leads does not answer, or none leads: ")
    assert plan["leader"] is None
    assert len(plan["partial"]) == 1


def test_kube_schedulers_certificate_reads_no_plan(asked: Asked, until: "Until") -> None:
    until(lambda: asked.plan()["leader"], "a leader", 60)
    assert asked.ask_controller("tls") == 200
    with pytest.raises((URLError, RemoteDisconnected, ConnectionResetError)):
        asked.ask_controller("client")
    assert "client certificate of kube-scheduler refused" in asked.controller.log
    assert (
        'leadsman_tls_certificate_expiry_timestamp_seconds{certificate="replica_server"}'
        in asked.controller.get("/metrics")[1]
    )
