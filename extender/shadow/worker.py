"""The shadow process: reads requests from standard input, judges each, and writes tallies to standard output.

It ends when its input does, as when the extender is killed. `python -m extender.shadow.worker`
"""

import contextlib
import os
import select
import signal
import time
from collections import Counter, defaultdict
from collections.abc import Callable

import msgspec

from extender.replay.judge import Judge, Judgement
from extender.replay.report import CHANGED, describe
from extender.shadow.frames import MAX_CHANGES, MAX_TEXT, POLICY, FrameReader, ShadowChange, Tally, tally_line
from leadsman.decision.policy import Policy, digest
from leadsman.sources.recording.decoder import RequestDecoder
from leadsman.sources.recording.messages import decode_block

NICENESS = 19
"""Answers come first where CPU is short."""

TALLY_SECONDS = 0.5
"""Between two tallies, so that they cost the extender nothing."""

STARVED_SECONDS, STARVED_SHARE = 1.0, 0.1
"""Work that takes so long, and gets no more of a CPU than this meanwhile, is starved."""

_READ_BYTES = 64 << 10

_POLICY = msgspec.msgpack.Decoder(Policy)


class ShadowWorker:
    """Judges what it is fed, and keeps a tally. after_each: called after each request."""

    def __init__(self, after_each: Callable[[], None] = lambda: None) -> None:
        self._after_each = after_each
        self._frames, self._decoder, self._judge = FrameReader(), RequestDecoder(), Judge(Policy())
        self._digest = digest(Policy())
        self._clear()

    def feed(self, data: bytes) -> None:
        for kind, content in self._frames.feed(data):
            if kind == POLICY:
                policy = _POLICY.decode(content)
                self._judge, self._digest = Judge(policy), digest(policy)
            else:
                for request in self._decoder.decode(decode_block(content)):
                    self._count(self._judge.judge(request))
                    self._after_each()

    @property
    def has_news(self) -> bool:
        return bool(self._results)

    def take_tally(self) -> Tally:
        """What was judged since the last call."""
        tally = Tally(self._digest, {verb: dict(counts) for verb, counts in self._results.items()}, self._changes)
        self._clear()
        return tally

    def _clear(self) -> None:
        self._results: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._changes: list[ShadowChange] = []

    def _count(self, judgement: Judgement) -> None:
        self._results[judgement.verb][judgement.result.value] += 1
        if judgement.result in CHANGED and len(self._changes) < MAX_CHANGES:
            change, why = describe(judgement)
            result = judgement.result.value
            self._changes.append(ShadowChange(judgement.pod, judgement.verb, result, change[:MAX_TEXT], why[:MAX_TEXT]))


class Priority:
    """The process runs while the extender leaves a CPU idle, and is off it at once when an answer is to be made.

    Source: man 7 sched, SCHED_IDLE. Even with nice 19 a process keeps its CPU for the rest of its slice, some
    milliseconds. In a container, where it competes with the extender alone, that is all there is to it. On a busy host
    it may get no CPU at all: then it goes on with nice 19 where it has the right to.
    """

    def __init__(self) -> None:
        os.nice(NICENESS)
        self._set(os.SCHED_IDLE)
        self.begin()

    def begin(self) -> None:
        """Work begins, which wants a CPU."""
        self._began, self._cpu_began = time.monotonic(), time.process_time()

    def check(self) -> None:
        """Now and then during the work: whether it gets its CPU."""
        took, cpu_took = time.monotonic() - self._began, time.process_time() - self._cpu_began
        if took >= STARVED_SECONDS and cpu_took < STARVED_SHARE * took:
            self._set(os.SCHED_OTHER)

    def _set(self, policy: int) -> None:
        with contextlib.suppress(OSError):  # Where a sandbox forbids it, the niceness has to do.
            os.sched_setscheduler(0, policy, os.sched_param(0))


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the extender, which then closes our input.
    priority, due_at = Priority(), 0.0
    worker = ShadowWorker(priority.check)
    while True:
        timeout = max(0.0, due_at - time.monotonic()) if worker.has_news else None
        readable, _, _ = select.select([0], [], [], timeout)
        if readable:
            data = os.read(0, _READ_BYTES)
            if not data:
                return
            priority.begin()
            worker.feed(data)
        if worker.has_news and time.monotonic() >= due_at:
            with contextlib.suppress(BrokenPipeError):  # The extender is gone, and our input ends next.
                os.write(1, tally_line(worker.take_tally()))
            due_at = time.monotonic() + TALLY_SECONDS


if __name__ == "__main__":
    main()
