"""A table that is as young as its measurements: errors keep the old values, which age."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

from leadsman.sources.telemetry.polling import (
    RETENTION_SECONDS,
    MetricPoller,
    MetricUnavailable,
    Sample,
    Samples,
    merge_samples,
)


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Source:
    """answers: metric → samples, or an error, or a wait."""

    def __init__(self, **answers: Any) -> None:
        self.answers, self.asked = answers, list[str]()

    async def ask(self, metric: str) -> Samples:
        self.asked.append(metric)
        answer = self.answers[metric]
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, asyncio.Event):
            await answer.wait()
        return answer


def poller(source: Source, wanted: Callable[[], Any], clock: Clock, **more: Any) -> MetricPoller:
    return MetricPoller("test", source.ask, wanted, clock=clock, **more)


async def test_only_what_a_policy_names_is_asked_for_and_kept() -> None:
    source, wanted = Source(m={"a": Sample(1)}, n={"a": Sample(2)}), {"m", "n"}
    polled = poller(source, lambda: wanted, Clock())
    await polled.poll()
    wanted.remove("n")
    await polled.poll()
    assert source.asked == ["m", "n", "m"]
    assert set(polled.current.columns) == {"m"}


async def test_an_error_keeps_the_values_and_their_age() -> None:
    clock, source = Clock(), Source(m={"a": Sample(1)})
    polled = poller(source, lambda: ["m"], clock)
    await polled.poll()
    before = polled.current.columns["m"]
    source.answers["m"], clock.now = MetricUnavailable("away"), 110.0
    await polled.poll()
    assert polled.current.columns["m"] is before
    assert before.oldest_read_at == 100.0
    assert polled.errors == {"m": "away"}
    source.answers["m"] = {"a": Sample(1)}
    await polled.poll()
    assert polled.errors == {}
    assert polled.current.columns["m"].oldest_read_at == 110.0


async def test_one_metric_that_hangs_holds_up_no_other() -> None:
    source = Source(m=asyncio.Event(), n={"a": Sample(2)})
    polled = poller(source, lambda: ["m", "n"], Clock(), deadline_seconds=0.05)
    await polled.poll()
    assert set(polled.current.columns) == {"n"}
    assert polled.errors == {"m": "no answer within 0.05 s"}


def test_a_measurement_that_did_not_change_its_stamp_is_no_new_one() -> None:
    """An adapter that answers from a broken pipeline repeats its last sample without end."""
    first = {"a": Sample(1, "10:00"), "b": Sample(1, "10:00")}
    column = merge_samples(None, {}, first, 100.0)
    second = {"a": Sample(1, "10:00"), "b": Sample(1, "10:05")}
    assert dict(merge_samples(column, first, second, 105.0).read_at or {}) == {"a": 100.0, "b": 105.0}


def test_a_node_that_is_missing_keeps_its_value_until_it_is_forgotten() -> None:
    first = {"a": Sample(1), "b": Sample(2)}
    column = merge_samples(None, {}, first, 100.0)
    later = merge_samples(column, first, {"a": Sample(3)}, 105.0)
    assert dict(later.values) == {"a": 3, "b": 2}
    assert later.oldest_read_at == 100.0
    assert dict(merge_samples(later, {}, {"a": Sample(3)}, 100.0 + RETENTION_SECONDS).values) == {"a": 3}


async def test_a_nudge_polls_at_once() -> None:
    source, asked = Source(m={"a": Sample(1)}), asyncio.Queue[None]()

    def wanted() -> list[str]:
        asked.put_nowait(None)
        return ["m"]

    polled = poller(source, wanted, Clock(), interval_seconds=600.0)
    task = asyncio.create_task(polled.run())
    async with asyncio.timeout(60):
        await asked.get()
        polled.poll_soon()
        await asked.get()
    await _ended(task)


async def _ended(task: "asyncio.Task[None]") -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
