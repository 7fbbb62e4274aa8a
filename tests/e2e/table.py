"""Runs the rows one after another: each to its end, whatever became of those before it."""

import os
import sys
import time
import traceback
from collections.abc import Callable, Sequence, Set

import psutil
from msgspec import Struct

from tests.e2e.cluster import Cluster
from tests.e2e.disturbances import Skipped
from tests.e2e.rollout import Rollout
from tests.e2e.rows import INSTALLATIONS, REMOVAL, Demo, Installation, Row
from tests.e2e.state_watch import StateWatch
from tests.e2e.stream import Stream, Streamed, bounds

WHOLE_WITHIN_SECONDS = 60.0
"""Of whatever happens to a node: without a human the state is back."""

RESTING_PERCENT, RESTED_WITHIN_SECONDS = 50.0, 120.0
"""Images that are built and unpacked, and nodes that boot, take all cores: the first row is not about them."""

_EACH = '{range .items[*]}{.kind}{"/"}{.metadata.namespace}{"/"}{.metadata.name}{"\\n"}{end}'
_PASSING = ("Event/", "EndpointSlice/", "Endpoints/", "Pod/", "ControllerRevision/", "Lease/kube-node-lease/")
"""Come and go by themselves, as kubelets' Leases do, or the controller-manager takes its time to collect them."""


COLUMNS = """\
| done | s | sent | misplaced | lost | state not whole s | longest wait s | seen |
| --- | --- | --- | --- | --- | --- | --- | --- |"""


class Result(Struct, frozen=True):
    """What a row saw: a line of benchmarks/end-to-end.md.

    kept: whether what is promised about it held.
    said: what was seen, or why it broke.
    stream: None: the row sends no pods.
    not_whole_seconds: the longest time for which an extender had no fresh report of a living node.
    """

    title: str
    kept: bool
    seconds: float
    said: str = ""
    stream: Streamed | None = None
    not_whole_seconds: float = 0.0

    def __str__(self) -> str:
        counts = " |  |  |  | "
        if (seen := self.stream) and seen.sent:
            waits = f"{self.not_whole_seconds:.1f} | {seen.longest_seconds:.1f}"
            counts = f"{seen.sent:,} | {seen.misplaced} | {seen.lost} | {waits}"
        said = " ".join(self.said.replace("|", "\\|").split())
        told = said if self.kept else f"**broken** {said}".rstrip()
        return f"| {self.title} | {self.seconds:.0f} | {counts} | {told} |"


def total(results: Sequence[Result]) -> Result:
    """All rows in one."""
    streams = [each.stream for each in results if each.stream]
    sent, misplaced, lost = (sum(getattr(each, name) for each in streams) for name in ("sent", "misplaced", "lost"))
    longest_seconds = max((each.longest_seconds for each in streams), default=0.0)
    return Result(
        "all rows",
        all(each.kept for each in results),
        sum(each.seconds for each in results),
        "",
        Streamed(sent, misplaced, lost, longest_seconds),
        max((each.not_whole_seconds for each in results), default=0.0),
    )


class Table:
    """rate: pods a second. blind: no agent runs, so that no delay is known: all rows with a stream must break."""

    def __init__(self, cluster: Cluster, rollout: Rollout, rate: float, blind: bool) -> None:
        self._cluster, self._rollout, self._rate, self._blind = cluster, rollout, rate, blind
        self.results: list[Result] = []
        self.installed: Installation | None = None

    def run(self, names: Set[str], rounds: int) -> None:
        """Installs what the rows of these names need, runs them, and removes it."""
        before = everything(self._cluster)
        chosen = [each for each in INSTALLATIONS if names & {row.name for row in each.rows}]
        for installation in chosen:
            installed = self.add(f"installation by {installation.title}", lambda: self.install(installation))  # noqa: B023
            for row in rounds * installation.rows:
                if row.name in names and installed:
                    self._run(row)
                elif row.name in names:
                    self.note(Result(row.title, False, 0.0, "not run: there is no installation"))
            if REMOVAL in names or installation is not chosen[-1]:
                self.add(f"removal of {installation.title}", lambda: self._remove(installation, before))  # noqa: B023

    def new_stream(self, scheduler: str) -> Stream:
        first, *_, last = self._cluster.nodes
        return Stream(self._rollout, bounds(first.name, last.name), self._rate, scheduler)

    def _run(self, row: Row | Demo) -> None:
        if isinstance(row, Demo):
            self.add(row.title, lambda: row.show(self._cluster, self._rollout))
        else:
            self._stream(row)

    def install(self, installation: Installation) -> str:
        installation.install(self._rollout)
        self.installed = installation
        self._cluster.until(StateWatch(self._cluster).is_whole, "all nodes' reports are seen")
        self._cluster.until(self._rollout.knows_all_delays, "all pairs of nodes are measured")
        if self._blind:
            self._rollout.blind()
        began = time.monotonic()
        while psutil.cpu_percent(15.0) > RESTING_PERCENT and time.monotonic() - began < RESTED_WITHIN_SECONDS:
            pass
        return f"load {os.getloadavg()[0]:.0f}"

    def _remove(self, installation: Installation, before: frozenset[str]) -> str:
        deleted, self.installed = installation.remove(self._rollout), None
        left = sorted(everything(self._cluster) - before)
        if left:
            raise RuntimeError(f"left behind: {', '.join(left)}")
        return f"left behind: nothing, of {len(kinds(self._cluster))} kinds; `leadsman uninstall` deleted {deleted}"

    def add(self, title: str, show: Callable[[], str]) -> bool:
        """Something without a stream: whether it was as promised."""
        began = time.monotonic()
        kept, said = self.tried(show)
        self.note(Result(title, kept, time.monotonic() - began, said))
        return kept

    def _stream(self, row: Row) -> None:
        stream = self.new_stream(row.scheduler)
        seconds, not_whole, words, skipped_before = 0.0, 0.0, list[str](), self._cluster.skipped_extenders()

        def disturb() -> None:
            nonlocal seconds, not_whole
            began = time.monotonic()
            try:
                for _ in range(row.times):
                    watch = StateWatch(self._cluster)
                    not_whole = max(not_whole, watch.during(lambda: words.append(self._disturb(row))))
            finally:
                seconds = time.monotonic() - began

        def streamed() -> str:
            stream.during(disturb)
            return ""

        kept, said = self.tried(streamed)
        seen, skipped = stream.streamed, self._cluster.skipped_extenders() - skipped_before
        allowed = seen.reported if row.may_be_misplaced is None else row.may_be_misplaced
        is_promised = seen.misplaced <= allowed and not seen.lost
        self.note(
            Result(
                f"{row.title}{f', {row.times} times' if row.times > 1 else ''}",
                kept and is_promised and not_whole <= WHOLE_WITHIN_SECONDS + row.away_seconds,
                seconds,
                "; ".join(filter(None, [said, *words, _report_of(seen, skipped)])),
                seen,
                not_whole,
            )
        )

    def _disturb(self, row: Row) -> str:
        return row.disturb(self._cluster, self._rollout) or ""

    def tried(self, show: Callable[[], str]) -> tuple[bool, str]:
        """Whether it came to its end as promised, and what was seen, or why not. The cluster is whole after it."""
        try:
            return True, show()
        except Skipped as skipped:
            return True, f"skipped: {skipped}"
        except Exception as error:  # The other rows say more than none.
            traceback.print_exc(file=sys.stderr)
            return False, f"{type(error).__name__}: {error}{self._mended()}"

    def _mended(self) -> str:
        """A rollout that took too long goes on: the next row begins when it is through."""
        try:
            self._cluster.mend()
            self._rollout.wait_for_all()
        except Exception as error:
            return f"; the cluster could not be mended: {error}"
        return ""

    def note(self, result: Result) -> None:
        self.results.append(result)
        say(str(result))


def _report_of(seen: Streamed, skipped: int) -> str:
    if not seen.misplaced:
        return f"{seen.unknown} bound because their delay was unknown" if seen.unknown else ""
    told = f"of {seen.misplaced} misplaced ({seen.first_misplaced}), {seen.reported} got the Event BoundUnchecked"
    return f"{told}; {skipped} calls failed or took over 500 ms"


def kinds(cluster: Cluster) -> Sequence[str]:
    """All that can be listed, but Events."""
    listable = cluster.kubectl("api-resources", "--verbs=list", "-o", "name").split()
    return [kind for kind in listable if not kind.startswith("events")]


def everything(cluster: Cluster) -> frozenset[str]:
    """Objects as kind/namespace/name, and of each node the keys of labels and annotations and its taints."""
    listed = ",".join(kinds(cluster))
    objects = cluster.kubectl("get", listed, "-A", "--ignore-not-found", "-o", f"jsonpath={_EACH}").split("\n")
    found = {each for each in objects if each and not each.startswith(_PASSING)}
    for node in cluster.api.call("GET", "/api/v1/nodes")["items"]:
        meta, name = node["metadata"], node["metadata"]["name"]
        found |= {f"node {name}: label {key}" for key in meta.get("labels", {})}
        found |= {f"node {name}: annotation {key}" for key in meta.get("annotations", {})}
        found |= {f"node {name}: taint {each['key']}" for each in node["spec"].get("taints", [])}
        found |= {f"node {name}: condition {each['type']}" for each in node["status"].get("conditions", [])}
    return frozenset(found)


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
