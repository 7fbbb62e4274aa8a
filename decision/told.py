"""How each node stands to each delay bound, pair by pair, for explanations: value, interval, source, direction, age."""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import structs

from clusterstate.snapshot import Freshness
from decision import bounds, pairs, table
from decision.bounds import Bound, Replicas
from decision.freshness import freshness_of
from decision.model import Distance, Evidence, Facts, Pod
from decision.pairs import Cause
from decision.policy import Direction
from decision.references import Referent, resolve
from decision.sources import EstimatedRow

AGENTS = "agents"

LONGEST_MS = 60_000.0
"""An interval that ends here has no upper end: topology.pairs.LONGEST_MS."""

REASONS = {
    Cause.UNMEASURED: "delay to {} not measured",
    Cause.PROVISIONAL: "delay to {} not confirmed since the start",
    Cause.STALE: "delay to {} is stale",
    Cause.UNSURE: "estimated delay to {} may be over {:g} ms",
    Cause.FAR: "estimated delay to {} over {:g} ms",
    Cause.NO_REPLY: "no reply between the node and {}",
    Cause.OVER: "delay to {} over {:g} ms",
}


def evidence(pod: Pod, nodes: Sequence[str], facts: Facts) -> Evidence:
    """Of the bounds that are to something; the reason of the others says all."""
    found = [(bound, resolve(bound, pod, nodes, facts)) for bound in bounds.readable(pod)]
    heard = [(bound, referent) for bound, referent in found if isinstance(referent, Referent) and referent.nodes]
    if not heard:
        return Evidence()
    told = {node: tuple(_deciding(bound, to, node, facts) for bound, to in heard) for node in nodes}
    notes = {node: "; ".join(map(_waived, distances)) for node, distances in told.items()}
    measured = {f"rtt_ms {to.name}": _measured(position, told) for position, (_, to) in enumerate(heard)}
    return Evidence(measured, notes, told)


def _waived(distance: Distance) -> str:
    """How a node stands that passes: what is not known was accepted."""
    return f"{text(distance)}{', accepted' if distance.rtt_ms is None else ''}"


def text(distance: Distance) -> str:
    if distance.rtt_ms is None:
        return distance.why
    about = "about " if distance.estimated else ""
    grounds = f" ({', '.join(_grounds(distance))})" if distance.source else ""
    rtt = table.number(distance.rtt_ms)
    return f"{about}{rtt} ms from {distance.to}{grounds}, bound {distance.bound_ms:g} ms"


def _grounds(distance: Distance) -> Iterator[str]:
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
    low, high = table.number(low_ms), table.number(high_ms)
    if high_ms >= LONGEST_MS:
        yield f"{low} ms or more"
    elif low != high:
        yield f"{low} to {high} ms"


def _measured(position: int, told: Mapping[str, tuple[Distance, ...]]) -> Mapping[str, float]:
    each = ((node, distances[position]) for node, distances in told.items())
    return {node: one.rtt_ms for node, one in each if one.rtt_ms is not None and not one.estimated}


def _deciding(bound: Bound, referent: Referent, node: str, facts: Facts) -> Distance:
    """To all replicas the worst counts, unknown the most; to the nearest the best."""
    each = [_distance(bound, referent, reference, node, facts) for reference in referent.nodes]
    return max(each, key=_badness) if referent.replicas is Replicas.ALL else min(each, key=_badness)


def _badness(distance: Distance) -> tuple[bool, float]:
    return distance.rtt_ms is None, distance.rtt_ms or 0.0


def _distance(bound: Bound, referent: Referent, reference: str, node: str, facts: Facts) -> Distance:
    about = Distance(referent.name, reference, bound.ms, referent.pods.get(reference, ""))
    if node == reference:
        return structs.replace(about, rtt_ms=0.0)
    found = pairs.reports(reference, facts)
    if node in found.known:
        ways = [*_by_agents(about, node, facts)] or next(filter(None, _by_others(about, node, facts)))
        return max(ways, key=_badness)
    cause = found.causes.get(node, Cause.UNMEASURED)
    unknown = structs.replace(about, why=REASONS[cause].format(referent.name))
    return unknown if cause is Cause.NO_REPLY else _guess(unknown, node, facts)


def _by_agents(about: Distance, node: str, facts: Facts) -> Iterator[Distance]:
    """By each direction that counts."""
    for direction, reporter, peer in _ways(about.reference, node, facts):
        state = facts.snapshot.nodes.get(reporter)
        if state is not None and freshness_of(reporter, facts) is Freshness.FRESH:
            window = pairs.window(peer, state)
            rtt_ms = None if window is None else pairs.ms(facts.policy.delay.statistic)(window)
            if window is not None and rtt_ms is not None:
                age = state.age_seconds(facts.now)
                yield _way(about, rtt_ms, window.min_ms, window.p95_ms, AGENTS, direction, age)


def _by_others(about: Distance, node: str, facts: Facts) -> Iterator[list[Distance]]:
    """By each direction of each source, in their order."""
    for source in pairs.fresh_delays(facts):
        row = pairs.row_of(source, about.reference, facts)
        by = {Direction.FORWARD: row.forward, Direction.BACKWARD: row.backward}
        age = None if source.read_at is None else facts.now - source.read_at
        ways = [way for way, _, _ in _ways(about.reference, node, facts) if node in by[way]]
        yield [_way(about, by[way][node], None, None, source.source, way, age) for way in ways]


def _ways(reference: str, node: str, facts: Facts) -> Sequence[tuple[Direction, str, str]]:
    """direction, who measures, whom: those that the policy lets count."""
    both = ((Direction.FORWARD, reference, node), (Direction.BACKWARD, node, reference))
    return [way for way in both if facts.policy.delay.direction in (Direction.WORST, way[0])]


def _way(
    about: Distance,
    rtt_ms: float,
    low_ms: float | None,
    high_ms: float | None,
    source: str,
    direction: Direction,
    age_seconds: float | None,
) -> Distance:
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


def _guess(about: Distance, node: str, facts: Facts) -> Distance:
    row, estimates = pairs.estimated(about.reference, facts), facts.estimates
    if estimates is None:
        return about
    slots = facts.memo.row(estimates, ("slots", about.reference), lambda: _slots(row))
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


def _slots(row: EstimatedRow) -> Mapping[str, int]:
    return {node: slot for slot, node in enumerate(row.nodes)}
