"""Defines what fits and why a node takes no more, for people and programs: the same text for the same answer."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from msgspec import Struct

from leadsman.planning.backups.backup_plan import SCOPES
from leadsman.planning.backups.reserve import ReserveLedger, TwoFailures, copies, two_failures
from leadsman.planning.capacity.consequences import Addition, Loss
from leadsman.planning.capacity.count import NO_DIVISION, ROOM, Count
from leadsman.planning.capacity.fit_model import CapacityModel
from leadsman.planning.capacity.packing import Packing, Problem
from leadsman.runtime.text_table import align_columns

NO_NODES = "the cluster has no nodes"


class FitReport(Struct, frozen=True):
    """Says how many sets of pods fit.

    what: a set, as `3 web + 1 db`. fits: so many. at_most: more are proven not to fit.
    binds: what limits them first. reasons: template → why nodes take no more of it → how many nodes.
    two_failures: of the pods that run.
    cautions: why the packing was judged pod by pod. nodes: node → pods of the packing.
    failures: of each node, rack and zone by itself. lossless: how many of them lose no pod.
    wanted: the sets that were asked for. additions: what to add for them; empty when they fit, or nothing helps.
    """

    source: str
    what: str
    wanted: int
    fits: int
    at_most: int
    binds: str
    reasons: Mapping[str, Mapping[str, int]]
    cautions: tuple[str, ...]
    nodes: Mapping[str, int]
    two_failures: TwoFailures
    failures: tuple[Loss, ...] = ()
    lossless: int = 0
    additions: tuple[Addition, ...] = ()


def report_of(model: CapacityModel, count: Count, source: str, wanted: int) -> FitReport:
    """Says what is known of a count, without failures and additions."""
    full, refused = Counter[str](), Counter[str]()
    reasons = dict[str, Mapping[str, int]]()
    for number, template in enumerate(model.templates):
        lacks, refuses = _reasons(model, number, count)
        full, refused = full + lacks, refused + refuses
        reasons[template.name] = dict(_ordered(lacks) + _ordered(refuses))
    binds = count.cause
    if binds == ROOM or not full:
        binds = next((reason for reason, _ in _ordered(full) + _ordered(refused)), NO_NODES)
    pods = count.packing.runs.sum(axis=0)
    return FitReport(
        source=source,
        what=" + ".join(f"{each.per_set} {each.name}" for each in model.templates),
        wanted=wanted,
        fits=count.sets,
        at_most=count.at_most,
        binds=binds,
        reasons=reasons,
        cautions=tuple(dict.fromkeys(each for found in model.cautions for each in found)),
        nodes={model.problem.room.nodes[node]: int(pods[node]) for node in np.flatnonzero(pods).tolist()},
        two_failures=two_failures(model.situation.cluster, model.plan.backups, model.plan.reserves),
    )


def _reasons(model: CapacityModel, template: int, count: Count) -> tuple[Counter[str], Counter[str]]:
    """Says why nodes have no room for one more, and why others may never have one."""
    full, refused = Counter[str](), Counter[str]()
    ledger, wants = ledger_after(model.problem, count.packing), model.problem.templates[template]
    left = copies(ledger.free - ledger.reserved, wants.amounts)
    for number, node in enumerate(model.problem.room.nodes):
        if node in model.refusals[template]:
            refused[model.refusals[template][node]] += 1
        elif not wants.places[number]:
            refused[f"its {SCOPES[wants.scopes]} is unknown, so its pods could have no backup"] += 1
        elif left[number]:
            full[count.cause if count.cause != ROOM else NO_DIVISION] += 1
        else:
            full[_short(model.problem, ledger, number, template)] += 1
    return full, refused


def ledger_after(problem: Problem, packing: Packing) -> ReserveLedger:
    """Returns what is left when a packing is there."""
    ledger = problem.ledger()
    for template, runs in zip(problem.templates, packing.runs, strict=True):
        ledger.free -= runs[:, None] * template.amounts
    for (number, node), taking in packing.backups.items():
        template = problem.templates[number]
        for backup, pods in taking.items():
            ledger.fall(problem.room.survived(node, template.scopes), backup, pods * template.amounts)
    return ledger


def _short(problem: Problem, ledger: ReserveLedger, node: int, template: int) -> str:
    """Returns the resources of which the node has too little, and whether a reserve holds them."""
    amounts = problem.templates[template].amounts
    free, reserve = ledger.free[node], ledger.reserved[node]
    short = np.flatnonzero((amounts > 0) & (free - reserve < amounts)).tolist()
    held = all(free[each] >= amounts[each] for each in short)
    names = ", ".join(problem.room.resources[each] for each in short)
    return f"{names} (reserved for backups)" if held else names


def _ordered(counted: Counter[str]) -> list[tuple[str, int]]:
    return sorted(counted.items(), key=lambda each: (-each[1], each[0]))


SHOWN_LOSSES = 10


def as_text(report: FitReport) -> str:
    """Returns the count, why no more fit, what a failure costs and what to add."""
    row = (report.what, str(report.fits), str(report.at_most), report.binds)
    parts = [align_columns([("SETS OF", "FIT", "AT MOST", "BINDS FIRST"), row])]
    if report.cautions:
        parts[0].append(f"judged pod by pod: {'; '.join(report.cautions)}")
    for name, reasons in report.reasons.items():
        rows = [(f"{count}", reason) for reason, count in reasons.items()]
        parts.append([f"No more {name}, by nodes:", *align_columns(rows)] if rows else [f"No nodes for {name}"])
    parts += [*_failures(report), *_additions(report)]
    return "\n\n".join("\n".join(part) for part in parts) + "\n"


def _failures(report: FitReport) -> Iterator[list[str]]:
    if report.failures:
        worst = sorted(report.failures, key=lambda each: (-len(each.lost), each.fits, each.failure))[:SHOWN_LOSSES]
        table = [("FAILS", "PODS", "LOST", "FIT THEN", "FIRST OF THE LOST")]
        for each in worst:
            first = next((f"{pod}: {why}" for pod, why in each.lost.items()), "")
            table.append((each.failure, str(each.fallen), str(len(each.lost)), _joined(each.fits), first))
        of_all = f"{report.lossless} of {len(report.failures)} failures of a node, rack or zone lose no pod"
        yield [*align_columns(table), f"{of_all}; the {len(worst)} worst are shown", report.two_failures.text]


def _additions(report: FitReport) -> Iterator[list[str]]:
    if report.fits >= report.wanted:
        return
    if report.at_most >= report.wanted:
        known = f"at least {report.fits} and at most {report.at_most} do"
        yield [f"Whether {report.wanted} fit is not known: {known}"]
        return
    if not report.additions:
        yield [f"No number of copies of one node makes {report.wanted} fit; see what binds first"]
        return
    table = [("ADD NODES", "LIKE", "AS WELL AS")]
    for each in report.additions:
        others = f"{len(each.like)} others" if len(each.like) > 3 else ", ".join(each.like)
        table.append((f"+{each.copies}", each.node, others))
    yield [f"For {report.wanted}, one of:", *align_columns(table)]


def _joined(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))
