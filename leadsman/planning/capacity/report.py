"""What fits and why a node takes no more, for people and programs: the same bytes for the same answer."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import msgspec
import numpy as np
from msgspec import Struct

from leadsman.planning.backups.backup_plan import SCOPES
from leadsman.planning.backups.reserve import ReserveLedger, copies
from leadsman.planning.capacity.consequences import Addition, Loss
from leadsman.planning.capacity.count import NO_DIVISION, ROOM, Count
from leadsman.planning.capacity.fit_model import CapacityModel
from leadsman.planning.capacity.fit_problem import Packing, Problem
from leadsman.runtime.text_table import align_columns

NO_NODES = "the cluster has no nodes"


class Reasons(Struct, frozen=True):
    """binds: what limits the count first. nodes: reason → nodes that take no more for it, the most frequent first."""

    binds: str
    nodes: dict[str, int]


def reasons(model: CapacityModel, template: int, count: Count) -> Reasons:
    """The reasons for one template of a count."""
    full, refused = Counter[str](), Counter[str]()
    ledger, wants = ledger_after(model.problem, count.packing), model.problem.templates[template]
    left = copies(ledger.free - ledger.reserved, wants.amounts)
    for number, node in enumerate(model.problem.room.nodes):
        if node in model.refusals[template]:
            refused[model.refusals[template][node]] += 1
        elif not wants.places[number]:
            unknown = wants.scopes and not model.problem.room.survived(number, wants.scopes)
            what = f"its {SCOPES[wants.scopes]} is unknown" if unknown else "a bound would break after a failure"
            refused[f"{what}, so its pods could have no backup"] += 1
        elif left[number]:
            full[count.cause if count.cause != ROOM else NO_DIVISION] += 1
        else:
            full[_short(model.problem, ledger, number, template)] += 1
    binds = count.cause
    if binds == ROOM or not full:
        binds = next((reason for reason, _ in _ordered(full) + _ordered(refused)), NO_NODES)
    return Reasons(binds, dict(_ordered(full) + _ordered(refused)))


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
    """The resources of which the node has too little, and whether a reserve holds them."""
    amounts = problem.templates[template].amounts
    free, reserve = ledger.free[node], ledger.reserved[node]
    short = np.flatnonzero((amounts > 0) & (free - reserve < amounts)).tolist()
    held = all(free[each] >= amounts[each] for each in short)
    names = ", ".join(problem.room.resources[each] for each in short)
    return f"{names} (reserved for backups)" if held else names


def _ordered(counted: Counter[str]) -> list[tuple[str, int]]:
    return sorted(counted.items(), key=lambda each: (-each[1], each[0]))


SHOWN_LOSSES = 10


class Fit(Struct, frozen=True):
    """How many fit: pods of a template, or sets of all.

    fits: so many. at_most: more are proven not to fit. exact: both are the same.
    binds: what limits them first. reasons: reason → nodes that take no more for it.
    cautions: why the packing was judged pod by pod.
    nodes: node → pods of the packing.
    """

    what: str
    per_set: int
    fits: int
    at_most: int
    exact: bool
    binds: str
    reasons: Mapping[str, int]
    cautions: tuple[str, ...]
    nodes: Mapping[str, int]


class FitReport(Struct, frozen=True):
    """templates: each alone. sets: of all together; None: there is one template, with one pod a set.

    wanted: the sets that were asked for. additions: what to add for them; empty when they fit, or nothing helps.
    """

    source: str
    wanted: int
    templates: tuple[Fit, ...]
    sets: Fit | None
    additions: tuple[Addition, ...] = ()
    failures: tuple[Loss, ...] = ()

    @property
    def fitting_sets(self) -> int:
        return self.templates[0].fits if self.sets is None else self.sets.fits

    @property
    def at_most_sets(self) -> int:
        return self.templates[0].at_most if self.sets is None else self.sets.at_most


def alone_fit(model: CapacityModel, per_set: int, count: Count) -> Fit:
    """model, count: of one template alone. per_set: how many of its pods a set has."""
    why = reasons(model, 0, count)
    own = model.templates[0]
    return Fit(
        own.name,
        per_set,
        count.sets,
        count.at_most,
        count.exact,
        why.binds,
        why.nodes,
        model.cautions[0],
        _nodes(model, count),
    )


def sets_fit(model: CapacityModel, count: Count) -> Fit:
    """Of all templates together. Only the limit is named: which node takes which template is the packing's choice."""
    what = " + ".join(f"{each.per_set} {each.name}" for each in model.templates)
    cautions = tuple(dict.fromkeys(each for found in model.cautions for each in found))
    return Fit(what, 1, count.sets, count.at_most, count.exact, count.cause, {}, cautions, _nodes(model, count))


def _nodes(model: CapacityModel, count: Count) -> dict[str, int]:
    pods = count.packing.runs.sum(axis=0)
    return {model.problem.room.nodes[node]: int(pods[node]) for node in np.flatnonzero(pods).tolist()}


def as_json(report: FitReport) -> str:
    plain = msgspec.to_builtins(report) | {"fitting_sets": report.fitting_sets}
    return msgspec.json.format(msgspec.json.encode(plain), indent=2).decode() + "\n"


def as_text(report: FitReport) -> str:
    """The counts, why no more fit, what a failure costs and what to add."""
    parts = [_counts(report), *_reasons(report), *_failures(report), *_additions(report)]
    return "\n\n".join("\n".join(part) for part in parts) + "\n"


def _counts(report: FitReport) -> list[str]:
    table = [("PODS", "FIT", "AT MOST", "BINDS FIRST")]
    fits = [*report.templates, *([report.sets] if report.sets else [])]
    for each in fits:
        what = f"sets of {each.what}" if each is report.sets else each.what
        table.append((what, str(each.fits), str(each.at_most), each.binds))
    notes = [f"{each.what}: judged pod by pod: {'; '.join(each.cautions)}" for each in fits if each.cautions]
    return [*align_columns(table), *notes]


def _reasons(report: FitReport) -> Iterator[list[str]]:
    for each in report.templates:
        rows = [(f"{count}", reason) for reason, count in each.reasons.items()]
        yield [f"No more {each.what}, by nodes:", *align_columns(rows)] if rows else [f"No nodes for {each.what}"]


def _failures(report: FitReport) -> Iterator[list[str]]:
    if report.failures:
        worst = sorted(report.failures, key=lambda each: (-len(each.lost), each.fits, each.failure))[:SHOWN_LOSSES]
        table = [("FAILS", "PODS", "LOST", "FIT THEN", "FIRST OF THE LOST")]
        for each in worst:
            first = next((f"{pod}: {why}" for pod, why in each.lost.items()), "")
            table.append((each.failure, str(each.fallen), str(len(each.lost)), _joined(each.fits), first))
        lossless = sum(not each.lost for each in report.failures)
        of_all = f"{lossless} of {len(report.failures)} failures of a node, rack or zone lose no pod"
        yield [*align_columns(table), f"{of_all}; the {len(worst)} worst are shown"]


def _additions(report: FitReport) -> Iterator[list[str]]:
    if report.fitting_sets >= report.wanted:
        return
    if report.at_most_sets >= report.wanted:
        known = f"at least {report.fitting_sets} and at most {report.at_most_sets} do"
        yield [f"Whether {report.wanted} fit is not known: {known}"]
        return
    if not report.additions:
        yield [f"No number of copies of one node makes {report.wanted} fit; see what binds first"]
        return
    table = [("ADD", "LIKE", "AS WELL AS")]
    for each in report.additions:
        others = f"{len(each.like)} others" if len(each.like) > 3 else ", ".join(each.like)
        table.append((f"+{each.copies} nodes", each.node, others))
    yield [f"For {report.wanted}, one of:", *align_columns(table)]


def _joined(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))
