"""Records decided requests in a ring of files, for `leadsman replay`. Off unless a folder is named."""

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from extender.request_stream import FLUSH_SECONDS, RequestStream
from leadsman.sources.recording.messages import join
from leadsman.sources.recording.segments import SegmentRing

BLOCK_BYTES = 64 << 10
"""Of messages, compressed together. zlib looks 32 KiB back, so larger ones save little more."""


class RingSink:
    """Gathers messages into blocks, and appends each to the ring when it is large enough, or a second old."""

    def __init__(self, ring: SegmentRing, clock: Callable[[], float] = time.monotonic) -> None:
        self._ring, self._clock = ring, clock
        self._block: list[bytes] = []
        self._block_bytes, self._flushed_at = 0, clock()

    @property
    def wants_begin(self) -> bool:
        return self._ring.is_segment_full

    def begin(self, message: bytes) -> None:
        self.flush()
        self._ring.start_segment()
        self.write([message])

    def write(self, messages: Sequence[bytes]) -> None:
        self._block.extend(messages)
        self._block_bytes += sum(map(len, messages))
        if self._block_bytes >= BLOCK_BYTES:
            self.flush()

    def end_request(self) -> None:
        self._ring.end_base()
        if self._clock() - self._flushed_at >= FLUSH_SECONDS:
            self.flush()

    def flush(self) -> None:
        self._flushed_at = self._clock()
        if self._block:
            self._ring.write(join(self._block))
            self._block, self._block_bytes = [], 0

    def close(self) -> None:
        self._ring.close()


class Recorder:
    """The extender's recording. `observe` decided requests; `start` and `close` it.

    Raises RingFolderError when the folder cannot be used.
    """

    def __init__(self, folder: Path, max_bytes: int, is_busy: Callable[[], bool] = lambda: False) -> None:
        """is_busy: as in RequestStream."""
        self._ring = SegmentRing(folder, max_bytes)
        self._stream = RequestStream(RingSink(self._ring), "recording of requests", is_busy=is_busy)
        self.observe = self._stream.offer
        self.start, self.close = self._stream.start, self._stream.close

    def families(self) -> Iterator[Metric]:
        """For metrics."""
        yield GaugeMetricFamily(
            "leadsman_recording_active",
            "1 while requests are recorded, 0 after the recording had to stop: the log says why.",
            not self._stream.problem,
        )
        yield CounterMetricFamily(
            "leadsman_recording_requests", "Requests written to the recording.", self._stream.written
        )
        yield CounterMetricFamily(
            "leadsman_recording_dropped_requests",
            "Requests that are not in the recording: the writer was behind, or has stopped.",
            self._stream.dropped,
        )
        yield GaugeMetricFamily("leadsman_recording_bytes", "Bytes of the recording's files.", self._ring.total_bytes)
