"""Credentials in the URLs that a process is started with: no page and no log line shows them."""

from collections.abc import Sequence

import pytest

from leadsman.testbed.etcd import free_ports
from tests.testbed.scripted_api_server import ApiServerThread
from tests.waiting import blocked_until as until
from tests.whole.conftest import Start

PAGES = ("/metrics", "/healthz", "/readyz", "/plan", "/api/v1/overview", "/api/v1/health", "/api/v1/policy")
POLICY = "/apis/telemetry.intel.com/v1alpha1/namespaces/default/taspolicies/p"
RULES = {"rules": [{"metricname": "up", "operator": "GreaterThan", "target": 0}]}


@pytest.mark.parametrize(
    ("command", "expected", "pages_shown"),
    [
        ("agent --node-name edge-1 --address 127.0.0.1 --kube-api {away}", ["cannot watch pods"], []),
        (
            "extender --telemetry prometheus={away} --goldpinger {away} --kube-api {api}",
            ["source prometheus gives no up", "delays of Goldpinger are missing"],
            ["/api/v1/overview"],
        ),
        (
            "controller --kube-api {away} --etcd {away}",
            ["cannot watch nodes", "cannot watch taspolicies", "cannot watch etcd"],
            ["/readyz"],
        ),
    ],
)
def test_no_page_and_no_log_line_shows_them(
    command: str, expected: Sequence[str], pages_shown: Sequence[str], start: Start
) -> None:
    (closed,) = free_ports(1)
    with ApiServerThread() as api:
        api.put(POLICY, {"spec": {"strategies": {"dontschedule": RULES}}})
        urls = {"away": f"http://me:s3cret@127.0.0.1:{closed}", "api": api.url.replace("://", "://me:s3cret@")}
        process = start(*command.format(**urls).split())
        for line in expected:
            until(lambda line=line: line in process.log, f"the log says {line}")
        for page in pages_shown:
            until(lambda page=page: "<redacted>@127.0.0.1" in process.get(page)[1], f"{page} shows what is left")
        texts = {page: process.get(page)[1] for page in PAGES}
        assert process.stop() == 0
    assert [page for page, text in texts.items() if "s3cret" in text] == []
    assert "<redacted>@127.0.0.1" in process.log
    assert "s3cret" not in process.log
