"""Writes a snapshot file: JSON with a line for each node, pod and record, for diff and grep."""

from collections.abc import Iterator, Mapping, Sequence

from leadsman.sources.cluster_snapshot.document import ENCODER, ClusterSnapshot, Document, document_of


def snapshot_chunks(snapshot: ClusterSnapshot) -> Iterator[bytes]:
    """The file, piece by piece; equal snapshots give equal bytes. ValueError when delays have no place in it."""
    document, empty = document_of(snapshot), Document()
    opening = b"{\n"
    for name, key in zip(Document.__struct_fields__, Document.__struct_encode_fields__, strict=True):
        value = getattr(document, name)
        if value != getattr(empty, name):
            yield opening + ENCODER.encode(key) + b": "
            yield from _value(value)
            opening = b",\n"
    yield b"\n}\n"


def _value(value: object) -> Iterator[bytes]:
    if isinstance(value, Mapping):
        lines = (ENCODER.encode(key) + b": " + ENCODER.encode(value[key]) for key in sorted(value))
        yield from _listed(b"{", lines, b"}")
    elif isinstance(value, Sequence) and not isinstance(value, str):
        yield from _listed(b"[", (ENCODER.encode(each) for each in value), b"]")
    else:
        yield ENCODER.encode(value)


def _listed(opening: bytes, lines: Iterator[bytes], closing: bytes) -> Iterator[bytes]:
    for line in lines:
        yield opening + b"\n" + line
        opening = b","
    yield b"\n" + closing
