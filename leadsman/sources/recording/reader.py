"""Reads a recording: the requests of all segments in a folder, in their order."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from leadsman.runtime.decode_errors import UNREADABLE
from leadsman.sources.recording import messages as m
from leadsman.sources.recording.decided_request import DecidedRequest
from leadsman.sources.recording.decoder import BadRecording, RequestDecoder
from leadsman.sources.recording.segments import TornSegment, read_segment, segment_paths


class RecordedRequest(NamedTuple):
    """at_unix_seconds: when it was decided. leadsman: the version that decided it."""

    request: DecidedRequest
    at_unix_seconds: float
    leadsman: str


class Recording:
    """The recording in a folder, which may be still being written. BadRecording when there is none.

    torn: what could not be read, as sentences; filled while `requests` goes on.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.torn: list[str] = []
        if not segment_paths(folder):
            raise BadRecording(f"{folder}: there is no recording here; name the folder of the extender's --record-dir")

    def requests(self) -> Iterator[RecordedRequest]:
        """BadRecording when the segments are whole and not of a format that can be read."""
        decoder = RequestDecoder()
        for path in segment_paths(self._folder):
            try:
                yield from _read(path, decoder)
            except TornSegment as error:
                self.torn.append(str(error))
            except FileNotFoundError:
                self.torn.append(f"{path}: gone meanwhile: the extender made room for newer requests")


def _read(path: Path, decoder: RequestDecoder) -> Iterator[RecordedRequest]:
    decoder.begin = None
    for block in read_segment(path):
        try:
            messages = m.decode_block(block)
        except UNREADABLE as error:
            raise BadRecording(f"{path}: {error}; it may be another version's recording") from error
        for request in decoder.decode(messages):
            if decoder.begin is None:
                raise BadRecording(f"{path}: it does not begin with the state of the cluster")
            yield RecordedRequest(request, decoder.unix_seconds(request.inputs.now), decoder.begin.leadsman)
