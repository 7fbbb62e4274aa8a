"""A metric's current values: from one table, young enough, never of a node that is not fresh."""

from msgspec import structs

from leadsman.decision.inputs import DecisionInputs, PolledMetrics, SnapshotMetrics, TelemetryInputs
from leadsman.decision.policy import Policy
from leadsman.decision.telemetry import telemetry_plugins
from leadsman.kube import quantity
from leadsman.kube.quantity import NANO
from leadsman.state.records import Hardware, Heartbeat
from leadsman.state.snapshot import NodeState, Snapshot
from tests.leadsman.decision.telemetry.conftest import Tas


def node(changed_at: float | None = 99.0, **values: float) -> NodeState:
    return NodeState(None, Heartbeat(1, 1, 5.0), None, Hardware(values), changed_at=changed_at)


def known(
    tables: tuple[PolledMetrics | SnapshotMetrics, ...], now: float = 100.0, **nodes: NodeState
) -> DecisionInputs:
    return DecisionInputs(Snapshot(nodes), Policy(), now, telemetry=TelemetryInputs(tables=tables))


def test_agents_metrics_count_while_the_node_is_fresh(tas: Tas) -> None:
    facts = known(
        (SnapshotMetrics(),), a=node(load=0.5), b=node(80.0, load=1.0), c=node(None, load=1.0), d=node(other=1.0)
    )
    assert telemetry_plugins.current_readings("load", tas.policy(), facts).values == {"a": quantity.parse("500m")}


def test_polled_values_age_out_one_by_one(tas: Tas) -> None:
    column = tas.column({"a": 1, "b": 2}, read_at=80.0)
    column = structs.replace(column, read_at={"a": 80.0, "b": 90.0})
    facts = known((PolledMetrics({"m": column}),))
    assert telemetry_plugins.current_readings("m", tas.policy(), facts).values == {"b": 2 * NANO}
    assert telemetry_plugins.reporting_nodes("m", facts) == {"a", "b"}
    assert set(telemetry_plugins.current_readings("m", tas.policy(metrics={"maxAgeSeconds": 30}), facts).values) == {
        "a",
        "b",
    }


def test_the_first_table_with_a_current_value_counts_alone(tas: Tas) -> None:
    polled = PolledMetrics({"load": tas.column({"b": 7}, read_at=100.0)})
    a = node(load=1.0)
    assert set(
        telemetry_plugins.current_readings("load", tas.policy(), known((polled, SnapshotMetrics()), a=a)).values
    ) == {"b"}
    assert set(
        telemetry_plugins.current_readings("load", tas.policy(), known((SnapshotMetrics(), polled), a=a)).values
    ) == {"a"}
