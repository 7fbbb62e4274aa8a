"""A soak: random rows one after another while one stream goes on, and what has grown meanwhile."""

import random
import time
from collections.abc import Sequence

from msgspec import Struct

from tests.e2e.cluster import Cluster
from tests.e2e.growth import GrowthWatch
from tests.e2e.report import Result
from tests.e2e.rollout import Rollout
from tests.e2e.rows import INSTALLATIONS, SOAKED, Row
from tests.e2e.state_watch import StateWatch
from tests.e2e.stream import Stream
from tests.e2e.table import WHOLE_WITHIN_SECONDS, Table, say


class Done(Struct, frozen=True):
    """A row of the soak. said: what was seen, or why it broke. not_whole_seconds: beyond what the row itself takes."""

    row: str
    kept: bool
    said: str
    not_whole_seconds: float = 0.0


class Soak:
    """rollout: with `ignorable: false` for as long as it lasts, so that nothing may be misplaced."""

    def __init__(self, table: Table, cluster: Cluster, rollout: Rollout) -> None:
        self._table, self._cluster, self._rollout = table, cluster, rollout

    def run(self, minutes: float, seed: int) -> None:
        """On the last installation, which has all parts, and may be there from rows. The result is the table's last."""
        installation = INSTALLATIONS[-1]
        title = f"installation by {installation.title}"
        if self._table.installed != installation and not self._table.add(
            title, lambda: self._table.install(installation)
        ):
            return
        self._rollout.configure_scheduler(ignorable=False)
        stream, rng, done = self._table.new_stream("default-scheduler"), random.Random(seed), list[Done]()
        began = time.monotonic()

        def disturb() -> None:
            while time.monotonic() - began < minutes * 60:
                done.append(self._do(rng.choice(SOAKED)))
                self._say(time.monotonic() - began, done[-1], stream)

        with GrowthWatch(self._cluster) as watch:
            stream.during(disturb)
        self._note(time.monotonic() - began, seed, done, stream, watch)

    def _do(self, row: Row) -> Done:
        watch, longest, words = StateWatch(self._cluster), list[float](), list[str]()

        def disturb() -> str:
            longest.append(watch.during(lambda: words.append(row.disturb(self._cluster, self._rollout) or "")))
            return "".join(words)

        kept, said = self._table.tried(disturb)
        not_whole = max(0.0, max(longest, default=0.0) - row.away_seconds)
        return Done(row.name, kept, said, not_whole)

    def _say(self, passed: float, done: Done, stream: Stream) -> None:
        seen, kept = stream.streamed, "kept" if done.kept else "broken"
        counts = f"{seen.sent:,} sent, {seen.misplaced} misplaced"
        say(f"{passed:5.0f} s  {done.row}: {kept} {done.said}; not whole {done.not_whole_seconds:.1f} s; {counts}")

    def _note(self, seconds: float, seed: int, done: Sequence[Done], stream: Stream, watch: GrowthWatch) -> None:
        growths, seen = watch.growths(), stream.streamed
        broken = [f"{each.row}: {each.said}" for each in done if not each.kept]
        broken += [f"first misplaced: {seen.first_misplaced}"] if seen.misplaced else []
        broken += [f"{part} grew" for part, growth in growths.items() if not growth.is_flat]
        not_whole = max(each.not_whole_seconds for each in done)
        sizes = ", ".join(f"{part} {growth.first:.0f} → {growth.last:.0f}" for part, growth in growths.items())
        result = Result(
            f"soak of {len(done)} rows, seed {seed}",
            not (broken or seen.misplaced or seen.lost) and not_whole <= WHOLE_WITHIN_SECONDS,
            seconds,
            "; ".join([*broken, f"largest MiB in the first third and in the last: {sizes}"]),
            seen.sent,
            seen.misplaced,
            seen.lost,
            not_whole,
            seen.longest_seconds,
        )
        self._table.note(result)
