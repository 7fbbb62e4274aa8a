"""CONTRIBUTING says where each kind of thing goes. Each answer is tried here with a toy, through the real seams."""

import asyncio
import logging
import re
import sys
from argparse import Namespace
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence, Set
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest
from prometheus_client import Metric

from agent.hardware import summary
from agent.hardware.monitor import HardwareMonitor, hardware_metrics
from controller.node_patcher import NodeCache, NodePatcher
from leadsman.cli import main as command_line
from leadsman.cli.flags.options import Options
from leadsman.decision.decide import FILTERS, SCORES, filter_nodes, score_nodes
from leadsman.decision.inputs import DecisionInputs, SourceRow, TasPolicies, TelemetryInputs
from leadsman.decision.model import Evidence, PluginScore, PodInfo, Refusal
from leadsman.decision.policy import Policy
from leadsman.decision.telemetry import taspolicy_document
from leadsman.kube import quantity
from leadsman.kube.access import ApiAccess
from leadsman.kube.client import ApiClient
from leadsman.kube.listing import ListOptions
from leadsman.kube.objects import PartialObjectMetadata
from leadsman.kube.reflector import Reflector
from leadsman.kube.resources import NODES
from leadsman.planning.labels.label_plan import NodePatch, NodeView
from leadsman.plugin import HostRoots, Sample, gauge
from leadsman.runtime.problem_log import ProblemLog
from leadsman.runtime.token_bucket import TokenBucket
from leadsman.sources.delay.delay_sources import source_metrics
from leadsman.sources.telemetry.polling import MetricPoller, MetricUnavailable, Samples
from leadsman.sources.telemetry.polling import Sample as PolledSample
from leadsman.state import keys, records
from leadsman.state.memory_store import MemoryStore
from leadsman.state.records import BadRecord, Count, Record, decode_record, encode_record
from leadsman.state.snapshot import Snapshot
from leadsman.state.store import Put
from leadsman.testbed.api_objects import parse_path
from leadsman.testbed.fake_api_server import FakeApiServer

ROOT = Path(__file__).parents[2]
NOW = 100.0
POD = PodInfo("default", "p", labels={"toy": "yes"})
INPUTS = DecisionInputs(Snapshot(), Policy(), NOW)

WATTS = gauge("toy_watts", "Power that the toy draws, in watts.", "socket")


def collect_watts(roots: HostRoots) -> Iterator[Sample]:
    yield WATTS(float((Path(roots.sys) / "toy/watts").read_text()), "0")


async def test_a_toy_measurement_is_in_metrics_and_in_the_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy/watts").write_text("42.5")
    monkeypatch.setitem(summary.MEASURES, "toy_watts", lambda change: change.values(WATTS)[("0",)])
    monitor = HardwareMonitor(HostRoots(sys=str(tmp_path)), collectors={"toy": collect_watts}, clock=lambda: NOW)
    reading = await monitor.run_round()
    assert samples(hardware_metrics(reading), "leadsman_toy_watts") == {("0",): 42.5}
    assert samples(hardware_metrics(reading), "leadsman_collector_success") == {("toy",): 1.0}
    record = monitor.record(NOW)
    assert record is not None
    assert record.values == {"toy_watts": 42.5}


def samples(families: Iterable[Metric], name: str) -> dict[tuple[str, ...], float]:
    return {tuple(one.labels.values()): one.value for family in families for one in family.samples if one.name == name}


class ToyScore:
    """Prefers names that come late in the alphabet."""

    name = "toy"

    def score(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> PluginScore | None:
        order = sorted(nodes)
        return PluginScore(self.name, 1.0, {node: order.index(node) / (len(order) - 1) for node in nodes})

    def evidence(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> Evidence:
        return Evidence()


def test_a_toy_score_orders_the_nodes_beside_the_real_ones() -> None:
    scored = score_nodes(POD, ("a", "b", "c"), INPUTS, (*SCORES, ToyScore()))
    assert scored.scores == {"a": 0, "b": 5, "c": 10}
    assert "toy" in [part.plugin for part in scored.plugin_scores]


class ToyFilter:
    """Keeps pods with the label toy off node b."""

    name = "toy"

    def refusals(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> Mapping[str, Refusal]:
        return {"b": Refusal(self.name, "no toys here")} if "toy" in pod.labels else {}

    def evidence(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> Evidence:
        return Evidence()


def test_a_toy_filter_refuses_with_its_reason_behind_the_real_ones() -> None:
    found = filter_nodes(POD, ("a", "b", "c"), INPUTS, (*FILTERS, ToyFilter()))
    assert (found.kept, found.refused) == (("a", "c"), {"b": Refusal("toy", "no toys here")})


def plan_toy_labels(nodes: Iterable[NodeView]) -> tuple[NodePatch, ...]:
    """A planner: every node carries the label toy."""
    bare = [node for node in nodes if node.labels.get("toy") != "yes"]
    return tuple(NodePatch(node.name, {"toy": "yes"}, {}, (), {}, node.resource_version) for node in bare)


@pytest.fixture
async def api() -> AsyncIterator[FakeApiServer]:
    async with FakeApiServer() as one:
        for name in ("a", "b"):
            one.put(f"/api/v1/nodes/{name}", {"metadata": {"labels": {"kept": "x"}}})
        yield one


@pytest.fixture
async def client(api: FakeApiServer) -> AsyncIterator[ApiClient]:
    async with ApiClient(ApiAccess(api.url), deadline_seconds=5.0) as one:
        yield one


@pytest.fixture
async def nodes(client: ApiClient) -> AsyncIterator[NodeCache]:
    """Followed by a watch, and listed."""
    watched = Reflector(client, ListOptions(NODES, metadata_only=True), PartialObjectMetadata)
    task = asyncio.create_task(watched.run())
    try:
        await asyncio.wait_for(watched.loaded.wait(), 60)
        yield NodeCache(watched)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_toy_plan_is_executed_by_the_controller_s_patcher_and_leaves_nothing_to_plan(
    api: FakeApiServer, client: ApiClient, nodes: NodeCache
) -> None:
    patcher = NodePatcher(client, nodes, TokenBucket(1e6, 100))
    done = await patcher.apply(plan_toy_labels(nodes.views()))
    assert [patch.node for patch in done] == ["a", "b"]
    assert api.objects.get(parse_path("/api/v1/nodes/a"))["metadata"]["labels"] == {"kept": "x", "toy": "yes"}
    assert plan_toy_labels(nodes.views()) == ()


async def test_a_toy_action_of_a_replica_that_lost_its_lead_writes_nothing(
    api: FakeApiServer, nodes: NodeCache
) -> None:
    async with ApiClient(ApiAccess(api.url), may_write=lambda: False) as client:
        assert await NodePatcher(client, nodes, TokenBucket(1e6, 100)).apply(plan_toy_labels(nodes.views())) == []
    assert "patch" not in api.verbs()


class Toy(Record, frozen=True):
    """How many toys a node has."""

    count: Count


async def test_a_toy_record_has_a_key_and_bytes_and_stays_within_its_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    record: Any = Toy
    monkeypatch.setitem(records._decoders, record, msgspec.json.Decoder(record))
    monkeypatch.setitem(keys.RECORD_BY_KIND, "toy", record)
    monkeypatch.setitem(keys.KIND_BY_RECORD, record, "toy")
    store, key = MemoryStore(), keys.record_key("edge-1", record)
    assert (key, keys.parse(key)) == ("/leadsman/v1/nodes/edge-1/toy", keys.NodeKey("edge-1", "toy"))
    await store.write([Put(key, encode_record(record(3)))])
    (stored,) = (await store.read_prefix(keys.NODES_PREFIX)).items
    assert (stored.value, decode_record(Toy, stored.value)) == (b'{"v":1,"count":3}', Toy(3))
    with pytest.raises(BadRecord):
        encode_record(record(-1))


class ToyDelays:
    """A source of delays, and its own newest view: a is 3 ms from ref, b is 30."""

    source = "toy"
    nodes: Set[str] = frozenset({"ref", "a", "b"})
    read_at, fresh_until = NOW, NOW + 30.0
    problem = ProblemLog(logging.getLogger(__name__), "toy fails", "toy works again")

    def row(self, reference: str) -> SourceRow:
        return SourceRow(forward={"a": 3.0, "b": 30.0}) if reference == "ref" else SourceRow()

    @property
    def current(self) -> "ToyDelays":
        return self


def test_a_toy_source_of_delays_decides_a_bound_and_shows_its_metrics() -> None:
    toy = ToyDelays()
    inputs = DecisionInputs(Snapshot(), Policy(), NOW, delay_views=(toy.current,))
    found = filter_nodes(PodInfo("default", "p", labels={"delay_ref": "5"}), ("a", "b"), inputs)
    assert (found.kept, list(found.refused)) == (("a",), ["b"])
    assert samples(source_metrics([toy], NOW), "leadsman_delay_source_up") == {("toy",): 1.0}


async def ask_toy(metric: str) -> Samples:
    if metric != "heat":
        raise MetricUnavailable(f"the toy has no {metric}")
    return {"a": PolledSample(quantity.parse("90")), "b": PolledSample(quantity.parse("20"))}


async def test_a_toy_source_of_metrics_decides_a_telemetry_policy() -> None:
    rules = [{"metricname": "heat", "operator": "GreaterThan", "target": 80}]
    spec = {"strategies": {"dontschedule": {"rules": rules}}}
    policy = taspolicy_document.parse_taspolicy({"metadata": {"name": "cool", "namespace": "default"}, "spec": spec})
    poller = MetricPoller("toy", ask_toy, lambda: policy.metrics, clock=lambda: NOW)
    await poller.poll()
    telemetry = TelemetryInputs(TasPolicies({policy.key: policy}, loaded=True), (poller.current,))
    inputs = DecisionInputs(Snapshot(), Policy(), NOW, telemetry=telemetry)
    found = filter_nodes(PodInfo("default", "p", labels={"telemetry-policy": "cool"}), ("a", "b"), inputs)
    assert (found.kept, list(found.refused)) == (("b",), ["a"])


def test_a_toy_command_takes_its_flags_and_says_how_it_ended(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class ToyCommand(ModuleType):
        @staticmethod
        def options(add: Options) -> None:
            add.flag("times", "how often to play", 1, int, metavar="N")

        @staticmethod
        def main(args: Namespace) -> int:
            sys.stdout.write("toy " * args.times)
            return 3

    monkeypatch.setitem(sys.modules, "leadsman.cli.toy", ToyCommand("leadsman.cli.toy"))
    monkeypatch.setitem(command_line.COMMANDS, "toy", "play")
    assert command_line.main(["toy", "--times", "2"]) == 3
    assert capsys.readouterr().out == "toy toy "


TRIED = {
    "A new measurement of the node": test_a_toy_measurement_is_in_metrics_and_in_the_record,
    "A new score": test_a_toy_score_orders_the_nodes_beside_the_real_ones,
    "A new filter": test_a_toy_filter_refuses_with_its_reason_behind_the_real_ones,
    "A new planner": test_a_toy_plan_is_executed_by_the_controller_s_patcher_and_leaves_nothing_to_plan,
    "A new controller action": test_a_toy_action_of_a_replica_that_lost_its_lead_writes_nothing,
    "A new record in etcd": test_a_toy_record_has_a_key_and_bytes_and_stays_within_its_bounds,
    "A new source of delays": test_a_toy_source_of_delays_decides_a_bound_and_shows_its_metrics,
    "A new source of metrics": test_a_toy_source_of_metrics_decides_a_telemetry_policy,
    "A new command": test_a_toy_command_takes_its_flags_and_says_how_it_ended,
}
TRIED_ELSEWHERE = {
    "A new metric of a process",
    "A new annotation",
    "A new parser of what a stranger sends",
    "A new kind of device",
    "A plugin outside this repository",
}


def test_every_answer_of_contributing_is_tried_here_or_says_where() -> None:
    section = (ROOT / "CONTRIBUTING.md").read_text().partition("## Where to add")[2].partition("\n## ")[0]
    answers = dict(re.findall(r"^\*\*([^*]+?)\.?\*\*(.*?)(?=^\*\*|\Z)", section, re.MULTILINE | re.DOTALL))
    assert answers.keys() == TRIED.keys() | TRIED_ELSEWHERE
