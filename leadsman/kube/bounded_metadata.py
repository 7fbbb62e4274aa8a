"""Keeps labels and annotations of an object up to a limit of bytes. Pure.

The API server takes 256 KiB of annotations and any number of labels that fit into etcd's 1.5 MiB for an object: 40,000
labels are 8 MB here. So an object whose labels or annotations are larger keeps only those that Leadsman reads, and of
these as many as fit. What was cut is counted, and what decides something and was cut is named.
"""

from collections.abc import Iterator, Mapping
from typing import ClassVar, Self

import msgspec

from leadsman.kube.names import ANNOTATION_PREFIXES, READ_LABEL_PREFIXES, READ_LABELS

MAX_LABEL_BYTES = 16 << 10
"""An object's labels may have so many bytes, keys and values in UTF-8: 120 of the longest labels that have no
prefix."""

MAX_ANNOTATION_BYTES = 64 << 10
"""An object's annotations may have so many: a full delay annotation has 16 KiB, and a node's record of 300 owned labels
32 KiB."""

_LONGEST_NAMED_KEY = 63


class BoundedPairs(dict[str, str]):
    """Holds keys and values of an object: all of them, or those that are read. Not altered once made.

    cut: how many of the object's are not here.
    excess: which of those that are read are not here, as a sentence; "" when none is missing.
    """

    field: ClassVar[str]
    max_bytes: ClassVar[int]
    read_keys: ClassVar[frozenset[str]] = frozenset()
    read_prefixes: ClassVar[tuple[str, ...]] = ()
    cut: int = 0
    excess: str = ""

    @classmethod
    def reduced(cls, value: object) -> Self:
        """Reduces a JSON value (`decoding`) to such pairs."""
        return cls.of(msgspec.convert(value, dict[str, str]))

    @classmethod
    def of(cls, pairs: Mapping[str, str]) -> Self:
        """Returns all of `pairs` if they fit, else those that are read."""
        if _fits(pairs, cls.max_bytes):
            return cls(pairs)
        kept = cls.read_of(pairs)
        kept.cut = len(pairs) - len(kept)
        return kept

    @classmethod
    def read_of(cls, pairs: Mapping[str, str]) -> Self:
        """Returns those of `pairs` that are read, as many as fit: named keys first, then the others in order."""
        read = sorted(filter(cls.is_read, pairs), key=lambda key: (key not in cls.read_keys, key))
        kept, left = cls(), cls.max_bytes
        for position, key in enumerate(read):
            left -= _bytes(key, pairs[key])
            if left < 0:
                kept.cut = len(read) - position
                kept.excess = (
                    f"the {cls.field} that Leadsman reads have more than {cls.max_bytes:,} bytes together; {kept.cut:,}"
                    f" of them are not read, the first is {key[:_LONGEST_NAMED_KEY]}; remove some"
                )
                return kept
            kept[key] = pairs[key]
        return kept

    @classmethod
    def is_read(cls, key: str) -> bool:
        """Tells whether anything here depends on the value of this key."""
        return key in cls.read_keys or key.startswith(cls.read_prefixes)


class BoundedLabels(BoundedPairs):
    """Holds an object's labels."""

    field = "labels"
    max_bytes = MAX_LABEL_BYTES
    read_keys = READ_LABELS
    read_prefixes = READ_LABEL_PREFIXES


class BoundedAnnotations(BoundedPairs):
    """Holds an object's annotations."""

    field = "annotations"
    max_bytes = MAX_ANNOTATION_BYTES
    read_prefixes = ANNOTATION_PREFIXES


def cut_fields(metadata: object) -> Iterator[BoundedPairs]:
    """Yields the labels and annotations of which some were cut."""
    for name in ("labels", "annotations"):
        pairs = getattr(metadata, name, None)
        if isinstance(pairs, BoundedPairs) and pairs.cut:
            yield pairs


def _fits(pairs: Mapping[str, str], max_bytes: int) -> bool:
    for key, value in pairs.items():
        max_bytes -= _bytes(key, value)
        if max_bytes < 0:
            return False
    return True


def _bytes(key: str, value: str) -> int:
    return len(key.encode(errors="surrogatepass")) + len(value.encode(errors="surrogatepass"))
