"""Recording makes no answer wait, and whatever happens to the disk, answers go on."""

import asyncio
import contextlib
import ctypes
import json
import os
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import structs

from extender.recorder import FLUSH_SECONDS, MAX_QUEUED, Recorder
from leadsman.cluster.resources import Resources
from leadsman.decision.decide import FilterResult, filter_nodes
from leadsman.decision.model import CandidateNodes
from leadsman.sources.recording.messages import DecidedRequest
from leadsman.sources.recording.reader import Recording
from leadsman.sources.recording.segments import SegmentRing
from tests.changing_inputs import NODES, changing_inputs, random_pod
from tests.extender.conftest import args, starts
from tests.waiting import blocked_until


def request_of(number: int) -> DecidedRequest:
    """A filter request of the pod with this number, on a state of its own."""
    rng = random.Random(number)
    *_, inputs = changing_inputs(rng, 2)
    pod, nodes = random_pod(rng, number), CandidateNodes(NODES)
    return DecidedRequest("filter", pod, nodes, inputs, filter_nodes(pod, nodes, inputs))


class HeldRing(SegmentRing):
    """Takes nothing until it is let go."""

    go_on = threading.Event()

    def begin_segment(self) -> None:
        self.go_on.wait(10)
        super().begin_segment()


def sample(recorder: Recorder, name: str) -> float:
    return next(sample.value for family in recorder.families() for sample in family.samples if sample.name == name)


async def test_what_the_extender_answers_is_in_the_recording(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, 1 << 20)
    recorder.start()
    large = json.loads(args(["a", "b", "c"]))
    large["Pod"]["spec"] = {"containers": [{"name": "m", "resources": {"requests": {"memory": "32Gi"}}}]}
    async with starts(observers=[recorder.observe]) as extender:
        await extender.asked("/filter", json.dumps(large).encode())
        scores = await extender.asked("/prioritize", args(["a", "b"]))
        await extender.asked("/filter", args(["a", "b"], delay_gone="5"))
    recorder.close()
    kept, scored, refused = (each.request for each in Recording(tmp_path).requests())
    assert kept.answer == (("a", "b", "c"), {})
    assert kept.pod.requests == Resources(memory_bytes=32 << 30, pods=1)
    assert scored.answer == {each["Host"]: each["Score"] for each in scores}
    assert isinstance(refused.answer, FilterResult)
    assert refused.answer.kept == ()
    assert abs(next(Recording(tmp_path).requests()).at_unix_seconds - time.time()) < 60


@pytest.mark.slow
def test_a_writer_that_is_behind_costs_requests_and_no_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("extender.recorder.SegmentRing", HeldRing)
    recorder, request = Recorder(tmp_path, 1 << 20), request_of(1)
    recorder.start()
    for _ in range(MAX_QUEUED + 100):
        recorder.observe(request)
    assert 90 <= recorder.dropped <= 100
    HeldRing.go_on.set()
    recorder.close()
    assert recorder.written == MAX_QUEUED + 100 - recorder.dropped


def test_requests_wait_for_a_decision_that_is_being_made_but_not_too_long(tmp_path: Path) -> None:
    now = [0.0]
    recorder = Recorder(tmp_path, 1 << 20, is_busy=lambda: True, clock=lambda: now[0])
    recorder.observe(request_of(1))
    recorder.write_waiting()
    assert recorder.written == 0
    now[0] = FLUSH_SECONDS
    recorder.write_waiting()
    assert recorder.written == 1


def test_every_segment_can_be_read_alone_and_the_newest_requests_are_there(tmp_path: Path) -> None:
    request, number = request_of(1), 0
    recorder = Recorder(tmp_path, 1 << 20)
    recorder.start()
    for number in range(600):
        pod = structs.replace(request.pod, uid=os.urandom(1_000).hex(), name=f"pod-{number}")
        recorder.observe(structs.replace(request, pod=pod))
        blocked_until(lambda above=number - 100: sample(recorder, "leadsman_recording_requests_total") > above)
    recorder.close()
    first, *_ = segments = sorted(tmp_path.glob("segment-*"))
    assert len(segments) > 5
    first.unlink()
    names = [each.request.pod.name for each in Recording(tmp_path).requests()]
    assert names == [f"pod-{n}" for n in range(number + 1 - len(names), number + 1)]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 512 KiB."""
    if os.geteuid():
        pytest.skip("needs root, to mount a tmpfs")
    libc = ctypes.CDLL(None, use_errno=True)
    folder = tmp_path / "small"
    folder.mkdir()
    if libc.mount(b"tmpfs", str(folder).encode(), b"tmpfs", 0, b"size=512k"):
        pytest.skip(f"cannot mount a tmpfs: {os.strerror(ctypes.get_errno())}; needs CAP_SYS_ADMIN")
    yield folder
    libc.umount2(str(folder).encode(), 2)


@pytest.mark.integration
async def test_on_a_full_disk_every_request_is_answered_and_what_is_not_recorded_is_counted(small_disk: Path) -> None:
    recorder = Recorder(small_disk, 1 << 20)
    with contextlib.suppress(OSError):
        (small_disk / "others").write_bytes(bytes(1 << 20))
    recorder.start()
    async with starts(observers=[recorder.observe]) as extender:
        first = await extender.asked("/filter", args(["a", "b", "c"]))
        await extender.asked("/prioritize", args(["a", "b", "c"]))
        await asyncio.to_thread(blocked_until, lambda: sample(recorder, "leadsman_recording_active") == 0)
        for _ in range(20):
            assert await extender.asked("/filter", args(["a", "b", "c"])) == first
        await asyncio.to_thread(
            blocked_until, lambda: sample(recorder, "leadsman_recording_dropped_requests_total") >= 20
        )
    recorder.close()
    assert recorder.written + recorder.dropped == 22, "none that waited is kept, or forgotten"
