"""The ring of files keeps to its size, and whatever cuts or damages it leaves the rest readable."""

import os
import random
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from leadsman.decision.decide import FilterResult
from leadsman.decision.model import CandidateNodes
from leadsman.sources.recording.messages import DecidedRequest, RequestEncoder
from leadsman.sources.recording.reader import RecordedRequest, Recording
from leadsman.sources.recording.segments import HEAD, MARK, RingFolderError, RingTooSmall, SegmentRing, segment_paths
from tests.changing_inputs import NODES, changing_inputs, random_pod

NOISE = os.urandom(1 << 20)
REQUESTS = 120


class Writer:
    """Writes numbered requests as the recorder does, each as a block of its own."""

    def __init__(self, folder: Path, ring_bytes: int = 1 << 20, noise_bytes: int = 0) -> None:
        self.ring, self._encoder, self.number = SegmentRing(folder, ring_bytes), RequestEncoder(), 0
        self._noise_bytes = noise_bytes
        self._inputs = next(changing_inputs(random.Random(1), 1))

    def write(self, count: int = 1) -> None:
        for _ in range(count):
            if begins := self.ring.is_full:
                self.ring.begin_segment()
                self._encoder.begin()
            pod = structs.replace(random_pod(random.Random(self.number), self.number), uid=self._noise())
            nodes = CandidateNodes(NODES)
            request = DecidedRequest("filter", pod, nodes, self._inputs, FilterResult(nodes, {}))
            self.ring.write(self._encoder.block(list(self._encoder.encode(request)), 1.0, 2.0))
            if begins:
                self.ring.end_state()
            self.number += 1

    def _noise(self) -> str:
        at = random.Random(self.number).randrange(1 << 18)
        return NOISE[at : at + self._noise_bytes].hex()


def numbers(recording: Recording) -> list[int]:
    return list(map(name, recording.requests()))


def name(recorded: RecordedRequest) -> int:
    return int(recorded.request.pod.name.removeprefix("pod-"))


def test_the_oldest_go_and_the_size_is_kept(tmp_path: Path) -> None:
    writer = Writer(tmp_path, noise_bytes=10_000)
    for _ in range(200):
        writer.write()
        assert sum(path.stat().st_size for path in segment_paths(tmp_path)) == writer.ring.total_bytes <= 1 << 20
    kept = numbers(Recording(tmp_path))
    assert kept == list(range(kept[0], 200))
    assert writer.ring.total_bytes > 0.9 * (1 << 20), "no more goes than must"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A segment in which each request is a block."""
    folder = tmp_path_factory.mktemp("ring")
    Writer(folder, 16 << 20, noise_bytes=2_000).write(REQUESTS)
    (segment,) = segment_paths(folder)
    return segment.read_bytes()


def blocks(data: bytes) -> Iterator[tuple[int, int]]:
    """Where each begins and ends."""
    at = 0
    while at < len(data):
        _, length = HEAD.unpack_from(data, at)
        yield at, at + HEAD.size + length
        at += HEAD.size + length


def recorded(folder: Path, data: bytes) -> Recording:
    (folder / "segment-00000001.rec").write_bytes(data)
    return Recording(folder)


@given(share=st.floats(0, 1))
@settings(max_examples=50)
def test_wherever_it_is_cut_all_whole_blocks_before_are_read(
    tmp_path_factory: pytest.TempPathFactory, written: bytes, share: float
) -> None:
    cut = int(share * len(written))
    recording = recorded(tmp_path_factory.mktemp("cut"), written[:cut])
    ends = [end for _, end in blocks(written)]
    assert numbers(recording) == list(range(sum(end <= cut for end in ends)))
    assert bool(recording.torn) == (cut not in {0, *ends})


@given(
    hit=st.integers(0, REQUESTS - 1), offset=st.integers(0, HEAD.size) | st.integers(0, 1_000), flip=st.integers(1, 255)
)
@settings(max_examples=100)
def test_a_damaged_byte_costs_its_block_alone(
    tmp_path_factory: pytest.TempPathFactory, written: bytes, hit: int, offset: int, flip: int
) -> None:
    """hit: the block that is damaged; offset: where in it, as often in its head as anywhere else."""
    data = bytearray(written)
    start, end = list(blocks(written))[hit]
    data[min(start + offset, end - 1)] ^= flip
    recording = recorded(tmp_path_factory.mktemp("damaged"), bytes(data))
    read = list(recording.requests())
    assert [*map(name, read)] == [*range(hit), *range(hit + 1, REQUESTS)]
    assert [each.is_whole for each in read] == [number < hit for number in range(REQUESTS - 1)]
    assert f"at byte {start:,}" in recording.torn[0]


@pytest.mark.parametrize("length", [2**32 - 1, 1 << 30])  # 4 GiB, and one that a file could have.
def test_a_length_costs_no_memory(tmp_path: Path, written: bytes, length: int) -> None:
    recording = recorded(tmp_path, written + HEAD.pack(MARK, length) + written)
    tracemalloc.start()
    read_back = numbers(recording)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert read_back == [*range(REQUESTS), *range(REQUESTS)]
    assert "damaged" in recording.torn[0]
    assert peak < 64 << 20


def test_a_last_block_whose_length_is_too_large_is_torn(tmp_path: Path, written: bytes) -> None:
    data, (start, _) = bytearray(written), list(blocks(written))[-1]
    data[start + 5] ^= 1
    assert numbers(recorded(tmp_path, bytes(data))) == list(range(REQUESTS - 1))


def test_a_block_that_unpacks_to_too_much_is_left_out(
    tmp_path: Path, written: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leadsman.sources.recording.reader.LARGEST_BLOCK_BYTES", 1_000)
    recording = recorded(tmp_path, written)
    assert numbers(recording) == []
    assert "damaged at byte 0" in recording.torn[0] or "torn at byte 0" in recording.torn[0]


def test_what_is_written_meanwhile_is_read_through_all_segments_and_the_end_ends_it(tmp_path: Path) -> None:
    writer, looks = Writer(tmp_path, noise_bytes=10_000), [0]

    def wait() -> bool:
        looks[0] += 1
        if looks[0] <= 30:
            writer.write(3)
        return looks[0] <= 30

    recording = Recording(tmp_path)
    followed = list(map(name, recording.requests(wait)))
    assert followed == list(range(90))
    assert len(segment_paths(tmp_path)) > 5
    assert not recording.torn


def test_a_state_that_fills_the_ring_alone_is_an_error_that_names_the_flag(tmp_path: Path) -> None:
    ring = SegmentRing(tmp_path, 1 << 20)
    ring.begin_segment()
    ring.write(NOISE[:1_000_000])
    with pytest.raises(RingTooSmall, match="raise --record-bytes"):
        ring.write(NOISE[:100_000])


def test_two_processes_do_not_share_a_folder(tmp_path: Path) -> None:
    SegmentRing(tmp_path)
    with pytest.raises(RingFolderError, match="another process records there"):
        SegmentRing(tmp_path)


def test_files_are_for_their_owner_alone(tmp_path: Path) -> None:
    Writer(tmp_path).write()
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}
