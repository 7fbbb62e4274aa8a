"""Turns decided requests into messages. What changed in the inputs comes first, and what did not is not written again.

Inputs are immutable and replaced when they change, so two requests on the same inputs are told by `is`, and only the
changed values of a table are looked at. The rows of other delay sources and of the estimates are written when a request
first turns on them: all rows of 5,000 nodes are 25 million pairs.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from msgspec import structs

from leadsman.decision.delay.bounds import BadBound, parse_bounds
from leadsman.decision.delay.evaluation import ResolvedBound, resolve_bounds
from leadsman.decision.delay.views import DelayView, EstimateView
from leadsman.decision.devices.model import DeviceInputs
from leadsman.decision.healing.model import SelfHealing
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import PodInfo, Refusal
from leadsman.decision.policy import Policy
from leadsman.decision.telemetry.model import PolledMetrics, Readings, SnapshotMetrics, TelemetryInputs
from leadsman.decision.workloads import WorkloadIndex
from leadsman.kube.bounded_metadata import BoundedLabels
from leadsman.sources.recording import messages as m
from leadsman.sources.recording.decided_request import READ_ANNOTATIONS, DecidedRequest
from leadsman.sources.recording.packing import NameNumbers, pack_codes, pack_floats
from leadsman.sources.recording.table_changes import table_changes
from leadsman.state.reward_view import RewardsByType
from leadsman.state.snapshot import NodeState

K = TypeVar("K")

KEYS_PER_MESSAGE = 32
"""Of a table, so that encoding a message keeps the interpreter for some 0.3 ms, however large the cluster is."""

MAX_PACKED = 8
"""Lists of candidates that are kept packed: kube-scheduler asks with the same names again."""

MAX_NAMES = 200_000
"""After which everything begins again: names that requests once brought do not pile up."""

_NODE_FIELDS = tuple(m.NodeFields.__struct_fields__)
_HEALING_FIELDS = tuple(m.SelfHealingFields.__struct_fields__)
_NO_NODE, _NO_DELAYS = NodeState(), tuple[DelayView, ...]()


class RequestEncoder:
    """Encodes one stream of requests. `begin` before the first, and wherever a reader may begin.

    Each message is a value of `encode`'s iterator, made when it is asked for.
    """

    def begin(self, leadsman: str, now: float, unix_now: float) -> bytes:
        """Forgets what was written, so that the next request brings all of its inputs."""
        self._names = NameNumbers()
        self._nodes: Mapping[str, NodeState] = {}
        self._rewards: RewardsByType = {}
        self._policy: Policy | None = None
        self._workloads = WorkloadIndex()
        self._roles: Mapping[str, str] = {}
        self._healing = SelfHealing()
        self._last_round_trips: Mapping[str, Any] = {}
        self._telemetry = TelemetryInputs()
        self._devices = DeviceInputs()
        self._views = _NO_DELAYS
        self._estimates: EstimateView | None = None
        self._view_rows: set[tuple[int, str]] = set()
        self._estimate_rows: set[str] = set()
        self._packed = dict[int, tuple[Sequence[str], bytes]]()
        return m.encode(m.Begin(m.FORMAT, leadsman, now, unix_now))

    @property
    def is_full(self) -> bool:
        """Whether to begin again, because too many names have been met."""
        return len(self._names) > MAX_NAMES

    def encode(self, request: DecidedRequest) -> Iterator[bytes]:
        """The messages of the request: changes of its inputs, then itself."""
        inputs = request.inputs
        yield from self._inputs(inputs)
        yield from self._delay_rows(request.pod, request.nodes, inputs)
        if id(request.nodes) not in self._packed:
            yield from self._add_names(request.nodes)
            if len(self._packed) >= MAX_PACKED:
                del self._packed[next(iter(self._packed))]
            self._packed[id(request.nodes)] = request.nodes, self._names.pack(request.nodes)
        yield m.encode(self._request(request))

    def _inputs(self, inputs: DecisionInputs) -> Iterator[bytes]:
        yield from self._node_changes(inputs.snapshot.nodes)
        yield from self._reward_changes(inputs.snapshot.rewards)
        if inputs.policy is not self._policy:
            self._policy = inputs.policy
            yield m.encode(m.PolicyChanged(inputs.policy))
        if inputs.workloads is not self._workloads:
            yield from self._workload_changes(inputs.workloads)
        if inputs.node_roles is not self._roles:
            self._roles = inputs.node_roles
            yield m.encode(m.RolesChanged(dict(inputs.node_roles)))
        if inputs.self_healing is not self._healing:
            changed = _changed_fields(_HEALING_FIELDS, self._healing, inputs.self_healing)
            self._healing = inputs.self_healing
            yield m.encode(m.SelfHealingChanged(m.SelfHealingFields(**changed)))
        if inputs.last_round_trips is not self._last_round_trips:
            self._last_round_trips = inputs.last_round_trips
            yield m.encode(m.LastRoundTripsChanged(dict(inputs.last_round_trips)))
        if inputs.devices is not self._devices and inputs.devices.followed:
            yield from self._device_changes(inputs.devices)
        yield from self._telemetry_changes(inputs.telemetry)
        yield from self._delay_changes(inputs.delay_views, inputs.estimates)

    def _device_changes(self, devices: DeviceInputs) -> Iterator[bytes]:
        """What is not followed at first is not followed later."""
        before, self._devices = self._devices, devices
        asked = None if devices.asked is before.asked else devices.asked
        yield m.encode(m.DevicesChanged(devices.grants, devices.grants_problem, asked=asked))
        for keys, gone, order in _slices(*table_changes(before.nodes, devices.nodes)):
            changed = {key: devices.nodes[key] for key in keys}
            yield m.encode(m.DevicesChanged(devices.grants, devices.grants_problem, changed, gone, order))

    def _node_changes(self, nodes: Mapping[str, NodeState]) -> Iterator[bytes]:
        before, self._nodes = self._nodes, nodes
        changed, gone, order = table_changes(before, nodes)
        for keys, first, last in _slices(changed, gone, order):
            fields = {key: _node_fields(before.get(key, _NO_NODE), nodes[key]) for key in keys}
            yield m.encode(m.NodesChanged(fields, first, last))

    def _reward_changes(self, rewards: RewardsByType) -> Iterator[bytes]:
        before, self._rewards = self._rewards, rewards
        types, gone_types, _ = table_changes(before, rewards)
        for pod_type in types:
            by_node = rewards[pod_type]
            for keys, gone, order in _slices(*table_changes(before.get(pod_type, {}), by_node)):
                yield m.encode(m.RewardsChanged(pod_type, {key: by_node[key] for key in keys}, gone, order))
        for pod_type in gone_types:
            yield m.encode(m.RewardsChanged(pod_type, {}, list(before[pod_type])))

    def _workload_changes(self, workloads: WorkloadIndex) -> Iterator[bytes]:
        before, self._workloads = self._workloads, workloads
        table = workloads.by_name
        yield m.encode(m.WorkloadsChanged(workloads.read_at))
        for keys, gone, order in _slices(*table_changes(before.by_name, table)):
            yield m.encode(m.WorkloadsChanged(workloads.read_at, {key: dict(table[key]) for key in keys}, gone, order))

    def _telemetry_changes(self, telemetry: TelemetryInputs) -> Iterator[bytes]:
        before, self._telemetry = self._telemetry, telemetry
        if telemetry.policies is not before.policies:
            yield m.encode(m.TasPoliciesChanged(telemetry.policies))
        for place, table in enumerate(telemetry.tables):
            old = before.tables[place] if place < len(before.tables) else None
            if table is not old:
                yield from self._metric_table_changes(place, old, table)
        if len(telemetry.tables) < len(before.tables):
            yield m.encode(m.MetricTablesCut(len(telemetry.tables)))

    def _metric_table_changes(
        self, place: int, old: PolledMetrics | SnapshotMetrics | None, table: PolledMetrics | SnapshotMetrics
    ) -> Iterator[bytes]:
        if isinstance(table, SnapshotMetrics):
            yield m.encode(m.MetricTableChanged(place, False, 0.0))
            return
        yield m.encode(m.MetricTableChanged(place, True, table.max_age_seconds))
        columns = old.columns if isinstance(old, PolledMetrics) else {}
        for keys, gone, _ in _slices(*table_changes(columns, table.columns), size=1):
            for key in keys:
                yield from self._add_names(table.columns[key].values)
            changed = {key: self._readings(table.columns[key]) for key in keys}
            yield m.encode(m.MetricTableChanged(place, True, table.max_age_seconds, changed, gone))

    def _readings(self, readings: Readings) -> m.RecordedReadings:
        nodes, read_at = list(readings.values), readings.read_at
        times = None if read_at is None else pack_floats([read_at[node] for node in nodes])
        values = " ".join(map(str, readings.values.values()))
        return m.RecordedReadings(self._names.pack(nodes), values, times, readings.oldest_read_at)

    def _delay_changes(self, views: tuple[DelayView, ...], estimates: EstimateView | None) -> Iterator[bytes]:
        if [*map(id, views)] != [*map(id, self._views)]:
            places = {id(view): place for place, view in enumerate(self._views)}
            for view in views:
                yield from self._add_names(view.nodes)
            listed = [places[id(view)] if id(view) in places else self._new_view(view) for view in views]
            yield m.encode(m.DelayViewsChanged(listed))
            kept = {id(view) for view in views}
            self._view_rows = {row for row in self._view_rows if row[0] in kept & places.keys()}
            self._views = views
        if estimates is not self._estimates:
            self._estimates, self._estimate_rows = estimates, set()
            yield m.encode(m.EstimatesChanged(None if estimates is None else estimates.made_at))

    def _new_view(self, view: DelayView) -> m.NewDelayView:
        return m.NewDelayView(view.source, self._names.pack(list(view.nodes)), view.read_at, view.fresh_until)

    def _delay_rows(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> Iterator[bytes]:
        """The rows that a decision on the pod reads: those of the nodes that its bounds are to."""
        if not pod.has_delay_bounds or not (inputs.delay_views or inputs.estimates):
            return
        for reference in _references(pod, nodes, inputs):
            for place, view in enumerate(inputs.delay_views):
                if (id(view), reference) not in self._view_rows:
                    self._view_rows.add((id(view), reference))
                    yield from self._delay_row(place, view, reference)
            if inputs.estimates is not None and reference not in self._estimate_rows:
                self._estimate_rows.add(reference)
                yield from self._estimate_row(inputs.estimates, reference)

    def _delay_row(self, place: int, view: DelayView, reference: str) -> Iterator[bytes]:
        row = view.row(reference)
        no_reply = sorted(row.no_reply)
        yield from self._add_names([*row.forward, *row.backward, *no_reply])
        pack = self._names.pack
        yield m.encode(
            m.DelayRow(
                place,
                reference,
                pack(list(row.forward)),
                pack_floats(list(row.forward.values())),
                pack(list(row.backward)),
                pack_floats(list(row.backward.values())),
                pack(no_reply),
            )
        )

    def _estimate_row(self, estimates: EstimateView, reference: str) -> Iterator[bytes]:
        row = estimates.row(reference)
        yield from self._add_names(row.nodes)
        sources = sorted(set(row.source))
        columns = tuple(map(pack_floats, (row.rtt_ms, row.low_ms, row.high_ms, row.expected_ms, row.lowest_ms)))
        codes = pack_codes([sources.index(source) for source in row.source])
        yield m.encode(m.EstimateRow(reference, self._names.pack(row.nodes), columns, sources, codes))  # type: ignore[arg-type]

    def _request(self, request: DecidedRequest) -> m.Request:
        scores, refusals, refused = None, dict[Refusal, int](), list[str]()
        codes: Sequence[int] = ()
        if isinstance(request.answer, tuple):
            refused = list(request.answer.refused)
            codes = _number(request.answer.refused.values(), refusals)
        else:
            scores = bytes(request.answer.values())
        return m.Request(
            request.verb,
            request.inputs.now,
            _recorded_pod(request.pod),
            self._packed[id(request.nodes)][1],
            {node: list(uids) for node, uids in request.victims.items()},
            request.fault,
            list(refusals),
            self._names.pack(refused),
            pack_codes(codes),
            scores,
        )

    def _add_names(self, names: Iterable[str]) -> Iterator[bytes]:
        new = self._names.add_new(names)
        if new:
            yield m.encode(m.NamesAdded(new))


def _references(pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> list[str]:
    try:
        resolved = resolve_bounds(parse_bounds(pod), pod, nodes, inputs)
    except BadBound:
        return []
    return [node for each in resolved if isinstance(each, ResolvedBound) for node in each.target.nodes]


def _number(values: Collection[Refusal], numbers: dict[Refusal, int]) -> Sequence[int]:
    """The number of each, from when it is first met. Most are the same few objects, which are looked up once."""
    ids = list(map(id, values))
    by_id = {key: numbers.setdefault(value, len(numbers)) for key, value in dict(zip(ids, values, strict=True)).items()}
    return list(map(by_id.__getitem__, ids))


def _recorded_pod(pod: PodInfo) -> PodInfo:
    labels = {key: value for key, value in pod.labels.items() if BoundedLabels.is_read(key)}
    annotations = {key: value for key, value in pod.annotations.items() if key in READ_ANNOTATIONS}
    return structs.replace(pod, labels=labels, annotations=annotations)


def _node_fields(before: NodeState, after: NodeState) -> m.NodeFields:
    return m.NodeFields(**_changed_fields(_NODE_FIELDS, before, after))


def _changed_fields(fields: Sequence[str], before: object, after: object) -> dict[str, Any]:
    return {field: value for field in fields if (value := getattr(after, field)) is not getattr(before, field)}


def _slices(
    changed: Sequence[K], gone: Sequence[K], order: Sequence[K] | None, size: int = KEYS_PER_MESSAGE
) -> Iterator[tuple[Sequence[K], list[K], list[K] | None]]:
    """The changed keys in slices, what is gone with the first, and the order, which needs them all, with the last."""
    starts = range(0, len(changed), size) or ([0] if gone or order is not None else [])
    for start in starts:
        last = start + size >= len(changed)
        yield changed[start : start + size], list(gone) if not start else [], list(order) if order and last else None
