"""Names and numbers as bytes that compress well: 5,000 candidates are 60 KB as strings and some 100 bytes here."""

from collections.abc import Iterable, Sequence

import numpy as np

_SINGLE, _DOUBLE = b"4", b"8"


class NameNumbers:
    """The writer's side: each name has a number from when it is first met."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._numbers)

    def add_new(self, names: Iterable[str]) -> list[str]:
        """Numbers those that have none yet, and returns them in the order of their numbers."""
        numbers = self._numbers
        new = [name for name in dict.fromkeys(names) if name not in numbers]
        numbers.update(zip(new, range(len(numbers), len(numbers) + len(new)), strict=True))
        return new

    def pack(self, names: Sequence[str]) -> bytes:
        """The names, each with a number, in their order. Differences: names in order of their numbers are all ones."""
        numbers = np.fromiter(map(self._numbers.__getitem__, names), np.int32, len(names))
        return np.diff(numbers, prepend=np.int32(0)).astype("<i4").tobytes()


def unpack_names(packed: bytes, names: Sequence[str]) -> list[str]:
    """names: in the order of their numbers. IndexError for bytes that are of other names."""
    numbers = np.cumsum(np.frombuffer(packed, "<i4")).tolist()
    return [names[number] for number in numbers]


def pack_floats(values: Sequence[float]) -> bytes:
    """Exact: four bytes each where all are single-precision numbers, else eight."""
    numbers = np.asarray(values, "<f8")
    with np.errstate(over="ignore"):
        single = numbers.astype("<f4")
    if np.array_equal(single.astype("<f8"), numbers, equal_nan=True):
        return _SINGLE + single.tobytes()
    return _DOUBLE + numbers.tobytes()


def unpack_floats(packed: bytes) -> list[float]:
    """ValueError for bytes that are none."""
    if packed[:1] not in (_SINGLE, _DOUBLE):
        raise ValueError(f"floats of {packed[:1]!r} bytes each")
    numbers: list[float] = np.frombuffer(packed[1:], f"<f{packed[:1].decode()}").tolist()
    return numbers


def pack_codes(codes: Sequence[int]) -> bytes:
    """Small numbers, 0 or more."""
    return np.asarray(codes, "<u4").tobytes()


def unpack_codes(packed: bytes) -> list[int]:
    codes: list[int] = np.frombuffer(packed, "<u4").tolist()
    return codes
