"""A stream in any pieces is the same lines."""

from unittest.mock import AsyncMock, Mock

from hypothesis import given
from hypothesis import strategies as st

from leadsman.kube.client import read_line_batches


async def read(pieces):
    left = [*filter(None, pieces), b""]
    content = Mock(readany=AsyncMock(side_effect=left))
    return [line async for batch in read_line_batches(content, 5.0) for line in batch]


@given(st.lists(st.binary(min_size=1, max_size=9).filter(lambda b: b"\n" not in b and b.strip())), st.data())
async def test_lines_are_the_same_however_they_are_cut(wanted, data) -> None:
    stream = b"".join(line + b"\n" for line in wanted)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=9)))
    pieces = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert await read(pieces) == wanted
