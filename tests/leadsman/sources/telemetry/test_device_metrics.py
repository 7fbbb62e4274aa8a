"""What dcgm-exporter, or the agents, say of each device, by one query."""

from typing import Any

from leadsman.cluster.devices.node_devices import METRICS, UNCORRECTABLE_ERRORS, XID, DeviceReading
from leadsman.kube.access import ApiAccess
from leadsman.kube.client import ApiClient
from leadsman.sources.telemetry.device_metrics import AGENT_METRICS, DeviceMetricPoller
from leadsman.sources.telemetry.polling import PrometheusQueries, PrometheusSource
from tests.leadsman.sources.telemetry.test_polling import PATH, vector


def xid(value: str, **labels: str) -> tuple[dict[str, str], str]:
    return {"__name__": XID, **labels}, value


async def polled(server: Any, *answers: Any) -> DeviceMetricPoller:
    """After a poll for each answer, a second apart, the first at 100 s."""
    now = [99.0]
    async with ApiClient(ApiAccess(server.url)) as client:
        poller = DeviceMetricPoller(PrometheusSource(client, PrometheusQueries()), "node", clock=lambda: now[0])
        for answer in answers:
            now[0] += 1.0
            server.answers = {PATH: answer}
            await poller.poll()
    return poller


async def test_each_device_has_its_values_and_one_query_asks_for_all(server: Any) -> None:
    answer = vector(xid("79", UUID="GPU-a", node="n1"), xid("0", UUID="GPU-b", node="n1"))
    poller = await polled(server, answer)
    assert poller.current == {
        "GPU-a": DeviceReading("n1", {XID: 79.0}, 100.0),
        "GPU-b": DeviceReading("n1", {XID: 0.0}, 100.0),
    }
    [query] = server.queries
    assert all(metric in query for metric in METRICS)


async def test_the_node_is_the_exporter_s_own_label_where_no_other_names_it(server: Any) -> None:
    answer = vector(xid("0", UUID="GPU-a", Hostname="n1"), xid("0", UUID="GPU-b", node="n2:9400", Hostname="pod"))
    poller = await polled(server, answer)
    assert {uuid: each.node for uuid, each in poller.current.items()} == {"GPU-a": "n1", "GPU-b": "n2"}


async def test_of_the_parts_of_a_device_the_worst_counts(server: Any) -> None:
    parts = [xid(value, UUID="GPU-a", node="n1", GPU_I_ID=part) for part, value in (("1", "0"), ("2", "79"))]
    assert (await polled(server, vector(*parts))).current["GPU-a"].values == {XID: 79.0}


async def test_an_agent_s_reading_counts_as_the_exporter_s(server: Any) -> None:
    agent = {"__name__": "leadsman_gpu_xid_errors", "uuid": "GPU-a", "gpu": "0", "node": "n1"}, "79"
    poller = await polled(server, vector(agent, xid("0", UUID="GPU-a", Hostname="n1")))
    assert poller.current == {"GPU-a": DeviceReading("n1", {XID: 79.0}, 100.0)}
    assert all(metric in server.queries[0] for metric in AGENT_METRICS)


async def test_a_metric_that_is_missing_keeps_its_value_which_ages(server: Any) -> None:
    ecc = {"__name__": UNCORRECTABLE_ERRORS, "UUID": "GPU-a", "node": "n1"}, "0"
    poller = await polled(server, vector(xid("79", UUID="GPU-a", node="n1"), ecc), vector(ecc), vector(ecc))
    since = poller.current["GPU-a"].values_since
    assert (since(100.0), since(101.0)) == ({XID: 79.0, UNCORRECTABLE_ERRORS: 0.0}, {UNCORRECTABLE_ERRORS: 0.0})


async def test_a_failed_poll_changes_nothing_and_is_named(server: Any) -> None:
    poller = await polled(
        server, vector(xid("0", UUID="GPU-a", node="n1")), {"data": {"resultType": "matrix", "result": []}}
    )
    assert set(poller.current) == {"GPU-a"}
    assert "returned matrix for the health of devices" in poller.problem
