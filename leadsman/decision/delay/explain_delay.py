"""How each node stands to each delay bound, pair by pair, for explanations: value, interval, source, direction, age."""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import structs

from leadsman.decision.delay import bounds, rtt_table
from leadsman.decision.delay.bounds import DelayBound, ReplicaMode
from leadsman.decision.delay.rtt_table import DelayCause
from leadsman.decision.delay.targets import Target, resolve_target
from leadsman.decision.delay.views import EstimatedRow
from leadsman.decision.freshness import freshness_of
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import DelayEvidence, Evidence, PodInfo
from leadsman.decision.policy import Direction
from leadsman.runtime import text_table
from leadsman.state.snapshot import Freshness

AGENTS_SOURCE = "agents"

MAX_RTT_MS = 60_000.0
"""An interval that ends here has no upper end: leadsman.network.measured_pairs.MAX_RTT_MS."""

REASON_TEMPLATES = {
    DelayCause.UNMEASURED: "delay to {} not measured",
    DelayCause.PROVISIONAL: "delay to {} not confirmed since the start",
    DelayCause.STALE: "delay to {} is stale",
    DelayCause.ESTIMATE_UNSURE: "estimated delay to {} may be over {:g} ms",
    DelayCause.ESTIMATE_OVER: "estimated delay to {} over {:g} ms",
    DelayCause.NO_REPLY: "no reply between the node and {}",
    DelayCause.MEASURED_OVER: "delay to {} over {:g} ms",
}


def delay_evidence(pod: PodInfo, nodes: Sequence[str], facts: DecisionInputs) -> Evidence:
    """Of the bounds that are to something; the reason of the others says all."""
    found = [(bound, resolve_target(bound, pod, nodes, facts)) for bound in bounds.valid_bounds(pod)]
    heard = [(bound, referent) for bound, referent in found if isinstance(referent, Target) and referent.nodes]
    if not heard:
        return Evidence()
    told = {node: tuple(_deciding_evidence(bound, to, node, facts) for bound, to in heard) for node in nodes}
    notes = {node: "; ".join(map(_note, distances)) for node, distances in told.items()}
    measured = {f"rtt_ms {to.name}": _measured(position, told) for position, (_, to) in enumerate(heard)}
    return Evidence(measured, notes, told)


def _note(distance: DelayEvidence) -> str:
    """How a node stands that passes: what is not known was accepted."""
    return f"{evidence_text(distance)}{', accepted' if distance.rtt_ms is None else ''}"


def evidence_text(distance: DelayEvidence) -> str:
    if distance.rtt_ms is None:
        return distance.why
    about = "about " if distance.estimated else ""
    grounds = f" ({', '.join(_details(distance))})" if distance.source else ""
    rtt = text_table.format_number(distance.rtt_ms)
    return f"{about}{rtt} ms from {distance.to}{grounds}, bound {distance.bound_ms:g} ms"


def _details(distance: DelayEvidence) -> Iterator[str]:
    if distance.pod:
        yield f"{distance.pod} on {distance.reference}"
    yield distance.source
    if distance.direction:
        yield distance.direction
    if distance.low_ms is not None and distance.high_ms is not None:
        yield from _interval(distance.low_ms, distance.high_ms)
    if distance.age_seconds is not None:
        yield f"{distance.age_seconds:.1f} s old"


def _interval(low_ms: float, high_ms: float) -> Iterator[str]:
    """Nothing when both ends read the same."""
    low, high = text_table.format_number(low_ms), text_table.format_number(high_ms)
    if high_ms >= MAX_RTT_MS:
        yield f"{low} ms or more"
    elif low != high:
        yield f"{low} to {high} ms"


def _measured(position: int, told: Mapping[str, tuple[DelayEvidence, ...]]) -> Mapping[str, float]:
    each = ((node, distances[position]) for node, distances in told.items())
    return {node: one.rtt_ms for node, one in each if one.rtt_ms is not None and not one.estimated}


def _deciding_evidence(bound: DelayBound, referent: Target, node: str, facts: DecisionInputs) -> DelayEvidence:
    """To all replicas the worst counts, unknown the most; to the nearest the best."""
    each = [_pair_evidence(bound, referent, reference, node, facts) for reference in referent.nodes]
    return max(each, key=_badness) if referent.replicas is ReplicaMode.ALL else min(each, key=_badness)


def _badness(distance: DelayEvidence) -> tuple[bool, float]:
    return distance.rtt_ms is None, distance.rtt_ms or 0.0


def _pair_evidence(
    bound: DelayBound, referent: Target, reference: str, node: str, facts: DecisionInputs
) -> DelayEvidence:
    about = DelayEvidence(referent.name, reference, bound.ms, referent.pods.get(reference, ""))
    if node == reference:
        return structs.replace(about, rtt_ms=0.0)
    found = rtt_table.measured_row(reference, facts)
    if node in found.rtt_ms:
        ways = [*_by_agents(about, node, facts)] or next(filter(None, _by_sources(about, node, facts)))
        return max(ways, key=_badness)
    cause = found.causes.get(node, DelayCause.UNMEASURED)
    unknown = structs.replace(about, why=REASON_TEMPLATES[cause].format(referent.name))
    return unknown if cause is DelayCause.NO_REPLY else _estimated_evidence(unknown, node, facts)


def _by_agents(about: DelayEvidence, node: str, facts: DecisionInputs) -> Iterator[DelayEvidence]:
    """By each direction that counts."""
    for direction, reporter, peer in _directions(about.reference, node, facts):
        state = facts.snapshot.nodes.get(reporter)
        if state is not None and freshness_of(reporter, facts) is Freshness.FRESH:
            window = rtt_table.peer_window(peer, state)
            rtt_ms = None if window is None else rtt_table.rtt_getter(facts.policy.delay.statistic)(window)
            if window is not None and rtt_ms is not None:
                age = state.age_seconds(facts.now)
                yield _measured_evidence(about, rtt_ms, window.min_ms, window.p95_ms, AGENTS_SOURCE, direction, age)


def _by_sources(about: DelayEvidence, node: str, facts: DecisionInputs) -> Iterator[list[DelayEvidence]]:
    """By each direction of each source, in their order."""
    for source in rtt_table.fresh_views(facts):
        row = rtt_table.source_row(source, about.reference, facts)
        by = {Direction.FORWARD: row.forward, Direction.BACKWARD: row.backward}
        age = None if source.read_at is None else facts.now - source.read_at
        ways = [way for way, _, _ in _directions(about.reference, node, facts) if node in by[way]]
        yield [_measured_evidence(about, by[way][node], None, None, source.source, way, age) for way in ways]


def _directions(reference: str, node: str, facts: DecisionInputs) -> Sequence[tuple[Direction, str, str]]:
    """direction, who measures, whom: those that the policy lets count."""
    both = ((Direction.FORWARD, reference, node), (Direction.BACKWARD, node, reference))
    return [way for way in both if facts.policy.delay.direction in (Direction.WORST, way[0])]


def _measured_evidence(
    about: DelayEvidence,
    rtt_ms: float,
    low_ms: float | None,
    high_ms: float | None,
    source: str,
    direction: Direction,
    age_seconds: float | None,
) -> DelayEvidence:
    interval = (rtt_ms if low_ms is None else low_ms, rtt_ms if high_ms is None else high_ms)
    return structs.replace(
        about,
        rtt_ms=rtt_ms,
        low_ms=interval[0],
        high_ms=interval[1],
        source=source,
        direction=direction.value,
        age_seconds=age_seconds,
    )


def _estimated_evidence(about: DelayEvidence, node: str, facts: DecisionInputs) -> DelayEvidence:
    row, estimates = rtt_table.estimated_row(about.reference, facts), facts.estimates
    if estimates is None:
        return about
    slots = facts.cache.per_object(estimates, ("slots", about.reference), lambda: _row_positions(row))
    if node not in slots:
        return about
    slot = slots[node]
    return structs.replace(
        about,
        rtt_ms=float(row.rtt_ms[slot]),
        low_ms=float(row.low_ms[slot]),
        high_ms=float(row.high_ms[slot]),
        source=row.source[slot],
        estimated=True,
        age_seconds=facts.now - estimates.made_at,
    )


def _row_positions(row: EstimatedRow) -> Mapping[str, int]:
    return {node: slot for slot, node in enumerate(row.nodes)}
