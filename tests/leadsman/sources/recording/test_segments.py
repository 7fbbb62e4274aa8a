"""The ring of files keeps to its size, and whatever cuts it short leaves the rest readable."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leadsman.sources.recording.segments import (
    MAGIC,
    RingFolderError,
    RingTooSmall,
    SegmentRing,
    TornSegment,
    read_segment,
    segment_paths,
)

NOISE = os.urandom(1 << 20)


def write_blocks(ring: SegmentRing, blocks: list[bytes]) -> None:
    for block in blocks:
        if ring.is_segment_full:
            ring.start_segment()
            ring.end_base()
        ring.write(block)


def read_all(folder: Path) -> list[bytes]:
    return [block for path in segment_paths(folder) for block in read_segment(path)]


def test_blocks_come_back_in_their_order(tmp_path: Path) -> None:
    ring, blocks = SegmentRing(tmp_path, 1 << 20), [bytes([number]) * 999 for number in range(200)]
    write_blocks(ring, blocks)
    ring.close()
    assert read_all(tmp_path) == blocks


def test_the_oldest_go_and_the_size_is_kept(tmp_path: Path) -> None:
    ring, blocks = SegmentRing(tmp_path, 1 << 20), [NOISE[at : at + 10_000] for at in range(0, 1 << 20, 5_000)]
    for block in blocks:
        write_blocks(ring, [block])
        assert sum(path.stat().st_size for path in segment_paths(tmp_path)) == ring.total_bytes <= 1 << 20
    read = read_all(tmp_path)
    assert read == blocks[-len(read) :]
    assert len(read) * 10_000 > 0.9 * (1 << 20) - 10_000 * 16, "no more goes than must"


def test_a_second_run_appends_and_drops_the_first_one_s_oldest(tmp_path: Path) -> None:
    for run in range(3):
        ring = SegmentRing(tmp_path, 1 << 20)
        write_blocks(ring, [bytes([run]) + NOISE[at : at + 9_999] for at in range(0, 500_000, 10_000)])
        ring.close()
    assert [block[0] for block in read_all(tmp_path)] == [0] * (len(read_all(tmp_path)) - 100) + [1] * 50 + [2] * 50


@given(cut=st.integers(0, 3_000))
@settings(max_examples=50)
def test_wherever_it_is_cut_all_whole_blocks_before_are_read(
    tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    folder = tmp_path_factory.mktemp("ring")
    blocks = [NOISE[at : at + 300] for at in range(0, 3_000, 300)]
    ring = SegmentRing(folder)
    write_blocks(ring, blocks)
    ring.close()
    (path,) = segment_paths(folder)
    size = path.stat().st_size
    os.truncate(path, cut)
    read = list[bytes]()
    with contextlib.suppress(TornSegment):
        read += read_segment(path)
    whole = (cut - len(MAGIC)) // ((size - len(MAGIC)) // len(blocks))
    assert read == blocks[: max(0, whole)]


def test_a_damaged_block_ends_the_segment_with_its_place(tmp_path: Path) -> None:
    ring = SegmentRing(tmp_path)
    write_blocks(ring, [b"first", b"second"])
    ring.close()
    (path,) = segment_paths(tmp_path)
    damaged = bytearray(path.read_bytes())
    damaged[-1] ^= 1
    path.write_bytes(damaged)
    blocks = read_segment(path)
    assert next(blocks) == b"first"
    with pytest.raises(TornSegment, match="torn at byte"):
        next(blocks)


def test_a_block_that_unpacks_to_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ring = SegmentRing(tmp_path)
    write_blocks(ring, [bytes(100_000)])
    ring.close()
    monkeypatch.setattr("leadsman.sources.recording.segments.LARGEST_BLOCK_BYTES", 99_999)
    with pytest.raises(TornSegment, match="more than 99,999 bytes"):
        read_all(tmp_path)


def test_a_state_that_fills_the_ring_alone_is_an_error_that_names_the_flag(tmp_path: Path) -> None:
    ring = SegmentRing(tmp_path, 1 << 20)
    ring.start_segment()
    ring.write(NOISE[:1_000_000])
    with pytest.raises(RingTooSmall, match="raise --record-bytes"):
        ring.write(NOISE[:100_000])


def test_a_folder_that_is_not_there_is_an_error_that_says_what_would_do(tmp_path: Path) -> None:
    with pytest.raises(RingFolderError, match="needs a folder that exists"):
        SegmentRing(tmp_path / "absent")


def test_two_processes_do_not_share_a_folder(tmp_path: Path) -> None:
    SegmentRing(tmp_path)
    with pytest.raises(RingFolderError, match="another process records there"):
        SegmentRing(tmp_path)


def test_files_are_for_their_owner_alone(tmp_path: Path) -> None:
    write_blocks(SegmentRing(tmp_path), [b"block"])
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}


WRITES_FOR_EVER = """
import sys
from pathlib import Path
from leadsman.sources.recording.segments import SegmentRing
ring, number = SegmentRing(Path(sys.argv[1]), 1 << 20), 0
while True:
    if ring.is_segment_full:
        ring.start_segment()
        ring.end_base()
    ring.write(number.to_bytes(8, "big") * 500)
    number += 1
    print(number, flush=True)
"""


def test_after_kill_9_all_that_was_written_is_read(tmp_path: Path) -> None:
    writer = subprocess.Popen([sys.executable, "-c", WRITES_FOR_EVER, tmp_path], stdout=subprocess.PIPE)
    assert writer.stdout
    for _ in range(300):
        written = int(writer.stdout.readline())
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    writer.stdout.close()
    read = list[bytes]()
    for path in segment_paths(tmp_path):
        try:
            read += read_segment(path)
        except TornSegment:
            assert path == segment_paths(tmp_path)[-1]
    numbers = [int.from_bytes(block[:8], "big") for block in read]
    assert numbers == list(range(numbers[0], numbers[-1] + 1))
    assert numbers[-1] >= written - 1
