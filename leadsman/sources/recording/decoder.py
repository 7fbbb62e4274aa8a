"""Turns messages back into decided requests, each with the inputs that it was decided on."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import version
from typing import Any

from msgspec import UNSET, Struct, structs

from leadsman.decision.cache import DecisionCache
from leadsman.decision.decide import FilterResult
from leadsman.decision.delay.views import DelayView, EstimatedRow, SourceRow
from leadsman.decision.devices.model import DeviceInputs
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import CandidateNodes
from leadsman.decision.policy import Policy
from leadsman.decision.telemetry.model import PolledMetrics, Readings, SnapshotMetrics, TelemetryInputs
from leadsman.decision.workloads import WorkloadIndex
from leadsman.sources.recording import messages as m
from leadsman.sources.recording.decided_request import DecidedRequest
from leadsman.sources.recording.packing import unpack_codes, unpack_floats, unpack_names
from leadsman.sources.recording.recorded_delays import RecordedDelayView, RecordedEstimates
from leadsman.sources.recording.table_changes import apply_changes
from leadsman.state.snapshot import NodeState, Snapshot


class BadRecording(ValueError):
    """The recording cannot be read: what is wrong with it, and what would do."""


_FIRST_INPUTS = DecisionInputs(Snapshot(), Policy(), 0.0)
_NO_NODE = NodeState()


class RequestDecoder:
    """Decodes one stream of messages, from a Begin on.

    begin: of the messages being read; None before the first.
    """

    def __init__(self) -> None:
        self.begin: m.Begin | None = None
        self._cache = DecisionCache()
        self._start()

    def _start(self) -> None:
        self._names: list[str] = []
        self._lists: dict[bytes, CandidateNodes] = {}
        self._views: list[RecordedDelayView] = []
        self._inputs = structs.replace(_FIRST_INPUTS, cache=self._cache)

    def decode(self, messages: Sequence[m.AnyMessage]) -> Iterator[DecidedRequest]:
        """The requests among the messages. BadRecording when they do not follow from those before."""
        for message in messages:
            if isinstance(message, m.Begin):
                self._check(message)
                self._start()
            else:
                request = self._apply(message)
                if request is not None:
                    yield request

    def unix_seconds(self, at_seconds: float) -> float:
        """The wall clock's time of a moment of the requests."""
        assert self.begin
        return at_seconds - self.begin.at_seconds + self.begin.at_unix_seconds

    def _check(self, begin: m.Begin) -> None:
        if begin.format != m.FORMAT:
            raise BadRecording(
                f"the recording has format {begin.format}, written by leadsman {begin.leadsman}; leadsman"
                f" {version('leadsman')} reads format {m.FORMAT}: replay it with that version"
            )
        self.begin = begin

    def _apply(self, message: m.AnyMessage) -> DecidedRequest | None:
        try:
            return _HANDLERS[type(message)](self, message)
        except (LookupError, ValueError) as error:
            kind = type(message).__name__
            raise BadRecording(f"a message {kind} does not follow from those before it: {error!r}") from error

    def _change(self, **fields: Any) -> None:
        self._inputs = structs.replace(self._inputs, **fields)

    def _change_snapshot(self, **fields: Any) -> None:
        self._change(snapshot=structs.replace(self._inputs.snapshot, **fields))

    def _add_names(self, message: m.NamesAdded) -> None:
        self._names.extend(message.names)

    def _change_nodes(self, message: m.NodesChanged) -> None:
        before = self._inputs.snapshot.nodes
        changed = {
            node: structs.replace(before.get(node, _NO_NODE), **_set_fields(fields))
            for node, fields in message.changed.items()
        }
        self._change_snapshot(nodes=apply_changes(before, changed, message.gone, message.order))

    def _change_rewards(self, message: m.RewardsChanged) -> None:
        rewards = dict(self._inputs.snapshot.rewards)
        by_node = apply_changes(rewards.get(message.pod_type, {}), message.changed, message.gone, message.order)
        if by_node:
            rewards[message.pod_type] = by_node
        else:
            rewards.pop(message.pod_type, None)
        self._change_snapshot(rewards=rewards)

    def _change_policy(self, message: m.PolicyChanged) -> None:
        self._change(policy=message.policy)

    def _change_workloads(self, message: m.WorkloadsChanged) -> None:
        by_name = apply_changes(self._inputs.workloads.by_name, message.changed, message.gone, message.order)
        self._change(workloads=WorkloadIndex(by_name, message.read_at))

    def _change_roles(self, message: m.RolesChanged) -> None:
        self._change(node_roles=message.roles)

    def _change_self_healing(self, message: m.SelfHealingChanged) -> None:
        self._change(self_healing=structs.replace(self._inputs.self_healing, **_set_fields(message.fields)))

    def _change_devices(self, message: m.DevicesChanged) -> None:
        before = self._inputs.devices
        nodes = apply_changes(before.nodes, message.changed, message.gone, message.order)
        asked = before.asked if message.asked is None else message.asked
        self._change(devices=DeviceInputs(True, nodes, message.grants, message.grants_problem, asked))

    def _change_last_round_trips(self, message: m.LastRoundTripsChanged) -> None:
        self._change(last_round_trips=message.by_node)

    def _change_tas_policies(self, message: m.TasPoliciesChanged) -> None:
        self._change(telemetry=TelemetryInputs(message.policies, self._inputs.telemetry.tables))

    def _cut_tables(self, message: m.MetricTablesCut) -> None:
        telemetry = self._inputs.telemetry
        self._change(telemetry=TelemetryInputs(telemetry.policies, telemetry.tables[: message.tables]))

    def _change_views(self, message: m.DelayViewsChanged) -> None:
        self._views = [self._view(each) for each in message.views]
        self._change(delay_views=tuple[DelayView, ...](self._views))

    def _add_delay_row(self, message: m.DelayRow) -> None:
        self._views[message.view].rows[message.reference] = self._delay_row(message)

    def _change_estimates(self, message: m.EstimatesChanged) -> None:
        self._change(estimates=None if message.made_at is None else RecordedEstimates(message.made_at))

    def _add_estimates(self, message: m.EstimateRow) -> None:
        estimates = self._inputs.estimates
        if not isinstance(estimates, RecordedEstimates):
            raise ValueError("there are no estimates")
        sources = [message.sources[code] for code in unpack_codes(message.source)]
        rtt, low, high, expected, lowest = map(unpack_floats, message.columns)
        nodes = unpack_names(message.nodes, self._names)
        estimates.rows[message.reference] = EstimatedRow(nodes, rtt, low, high, sources, expected, lowest)

    def _change_table(self, message: m.MetricTableChanged) -> None:
        telemetry = self._inputs.telemetry
        if not 0 <= message.place <= len(telemetry.tables):
            raise IndexError(f"there are {len(telemetry.tables)} tables, and place {message.place} is changed")
        tables = [*telemetry.tables, *[SnapshotMetrics()] * (message.place == len(telemetry.tables))]
        if message.is_polled:
            before = tables[message.place]
            columns = before.columns if isinstance(before, PolledMetrics) else {}
            changed = {metric: self._readings(each) for metric, each in message.changed.items()}
            columns = apply_changes(columns, changed, message.gone, None)
            tables[message.place] = PolledMetrics(columns, message.max_age_seconds)
        else:
            tables[message.place] = SnapshotMetrics()
        self._change(telemetry=TelemetryInputs(telemetry.policies, tuple(tables)))

    def _readings(self, recorded: m.RecordedReadings) -> Readings:
        nodes = unpack_names(recorded.nodes, self._names)
        values = dict(zip(nodes, map(int, recorded.values.split()), strict=True))
        times = None if recorded.read_at is None else dict(zip(nodes, unpack_floats(recorded.read_at), strict=True))
        return Readings(values, times, recorded.oldest_read_at)

    def _view(self, each: "int | m.NewDelayView") -> RecordedDelayView:
        if isinstance(each, int):
            return self._views[each]
        nodes = dict.fromkeys(unpack_names(each.nodes, self._names)).keys()
        return RecordedDelayView(each.source, nodes, each.read_at, each.fresh_until)

    def _delay_row(self, message: m.DelayRow) -> SourceRow:
        forward, backward, no_reply = (
            unpack_names(packed, self._names)
            for packed in (message.forward_nodes, message.backward_nodes, message.no_reply)
        )
        return SourceRow(
            dict(zip(forward, unpack_floats(message.forward_ms), strict=True)),
            dict(zip(backward, unpack_floats(message.backward_ms), strict=True)),
            frozenset(no_reply),
        )

    def _request(self, message: m.Request) -> DecidedRequest:
        nodes, inputs = self._candidates(message.candidates), structs.replace(self._inputs, now=message.at_seconds)
        answer: FilterResult | Mapping[str, int]
        if message.scores is None:
            answer = self._filter_result(nodes, message)
        else:
            answer = dict(zip(nodes, message.scores, strict=True))
        return DecidedRequest(message.verb, message.pod, nodes, inputs, answer, message.fault, message.victims)

    def _filter_result(self, nodes: CandidateNodes, message: m.Request) -> FilterResult:
        names = unpack_names(message.refused, self._names)
        refused = {
            node: message.refusals[code] for node, code in zip(names, unpack_codes(message.refusal_of), strict=True)
        }
        kept = nodes if not refused else CandidateNodes(node for node in nodes if node not in refused)
        return FilterResult(kept, refused)

    def _candidates(self, packed: bytes) -> CandidateNodes:
        """The same object for the same list, as it is while requests are decided: caches are keyed by it."""
        if packed not in self._lists:
            if len(self._lists) >= 64:
                self._lists.clear()
            self._lists[packed] = CandidateNodes(unpack_names(packed, self._names))
        return self._lists[packed]


def _set_fields(fields: Struct) -> Mapping[str, Any]:
    return {name: value for name, value in structs.asdict(fields).items() if value is not UNSET}


_HANDLERS: Mapping[type[m.Message], Callable[[RequestDecoder, Any], DecidedRequest | None]] = {
    m.NamesAdded: RequestDecoder._add_names,
    m.NodesChanged: RequestDecoder._change_nodes,
    m.RewardsChanged: RequestDecoder._change_rewards,
    m.PolicyChanged: RequestDecoder._change_policy,
    m.WorkloadsChanged: RequestDecoder._change_workloads,
    m.RolesChanged: RequestDecoder._change_roles,
    m.SelfHealingChanged: RequestDecoder._change_self_healing,
    m.LastRoundTripsChanged: RequestDecoder._change_last_round_trips,
    m.TasPoliciesChanged: RequestDecoder._change_tas_policies,
    m.MetricTableChanged: RequestDecoder._change_table,
    m.MetricTablesCut: RequestDecoder._cut_tables,
    m.DelayViewsChanged: RequestDecoder._change_views,
    m.DelayRow: RequestDecoder._add_delay_row,
    m.EstimatesChanged: RequestDecoder._change_estimates,
    m.EstimateRow: RequestDecoder._add_estimates,
    m.Request: RequestDecoder._request,
    m.DevicesChanged: RequestDecoder._change_devices,
}
