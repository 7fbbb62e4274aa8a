"""What each prober of a node says about it: lost, heard, or nothing that counts."""

from collections.abc import Iterable, Mapping
from enum import StrEnum

from msgspec import Struct

from leadsman.planning.failover.model import DetectionRules, Location
from leadsman.planning.failover.observations import Observation
from leadsman.state.records import LOSSES_OF_A_SILENT_PEER, Reachability


class Stance(StrEnum):
    """Of a prober towards a node. Only LOST speaks for its death; NO_EVIDENCE counts as if the prober heard it."""

    LOST = "lost"
    HEARD = "heard"
    NO_EVIDENCE = "no evidence"


class Vote(Struct, frozen=True):
    """What one prober says. lost_since: of a LOST, when the first of its lost probes was sent."""

    prober: str
    location: Location
    stance: Stance
    reason: str
    lost_since: float = 0.0

    def __str__(self) -> str:
        zone = f" (zone {self.location.zone})" if self.location.zone else ""
        return f"{self.prober}{zone} {self.reason}"


def vote(prober: str, seen: Observation, node: str, observed: Observation, rules: DetectionRules) -> Vote:
    """What `prober` says about `node`, which it is assigned to probe."""
    report = seen.report
    assert report is not None, f"{prober} is not assigned to probe {node}"
    if not seen.is_current:
        return Vote(prober, seen.location, Stance.NO_EVIDENCE, "reports no more")
    losses = report.losses[node]
    if losses < LOSSES_OF_A_SILENT_PEER:
        return Vote(prober, seen.location, Stance.HEARD, "hears it")
    reason = _why_no_evidence(seen, observed, report, rules)
    if reason:
        return Vote(prober, seen.location, Stance.NO_EVIDENCE, reason)
    silence = report.silences.get(node)
    age = silence.first_loss_age_seconds if silence else 0.0
    return Vote(prober, seen.location, Stance.LOST, f"lost {losses} probes running", seen.written_at - age)


def _why_no_evidence(seen: Observation, observed: Observation, report: Reachability, rules: DetectionRules) -> str:
    """Why the losses are no evidence; "" when they are. The node is one of those probed, and does not answer."""
    if report.local_fault:
        return f"lost it, but has a fault of its own: {report.local_fault}"
    if seen.moved_at <= observed.moved_at:
        return "lost it, by a report from before the node's last heartbeat"
    others = report.probed - 1
    if others < 1 or report.answering < rules.heard_ratio * others:
        return f"lost it, but hears only {report.answering} of its {max(others, 0)} other peers"
    return ""


def assigned_probers(observations: Mapping[str, Observation], nodes: Iterable[str]) -> dict[str, list[str]]:
    """Node → those whose own reports say that they probe it. One pass over all reports."""
    probers: dict[str, list[str]] = {node: [] for node in nodes}
    for name, seen in observations.items():
        if seen.report is not None:
            for node in seen.report.losses.keys() & probers.keys():
                if node != name:
                    probers[node].append(name)
    return probers
