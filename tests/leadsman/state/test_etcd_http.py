import asyncio
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadsman.state import etcd_http
from leadsman.state.etcd_http import EtcdAccess, EtcdTransport, LineReader
from leadsman.state.store import Compacted, Unavailable


class Chunks:
    """A body that arrives in these pieces and then ends, or falls silent."""

    def __init__(self, *pieces: bytes, ends: bool = True):
        self._pieces, self._ends = [*pieces], ends

    async def readany(self) -> bytes:
        if not self._pieces and not self._ends:
            await asyncio.Event().wait()
        return self._pieces.pop(0) if self._pieces else b""


def lines(chunks: Chunks, silence_seconds: float = 5.0) -> LineReader:
    return LineReader(chunks, silence_seconds)  # type: ignore[arg-type]


async def all_of(reader: LineReader) -> list[bytes]:
    found: list[bytes] = []
    try:
        while True:
            found.append(await reader.next())
    except Unavailable:
        return found


@given(st.lists(st.binary(min_size=1).filter(lambda b: b"\n" not in b), max_size=5), st.booleans(), st.data())
def test_lines_are_whole_however_they_arrive(wanted: list[bytes], ended: bool, data: st.DataObject) -> None:
    body = b"\n".join(wanted) + (b"\n" if ended and wanted else b"")
    cuts = sorted(data.draw(st.sets(st.integers(1, max(1, len(body) - 1)), max_size=4)))
    pieces = [body[a:b] for a, b in zip([0, *cuts], [*cuts, len(body)], strict=True)]
    assert asyncio.run(all_of(lines(Chunks(*filter(None, pieces))))) == wanted


async def test_a_line_longer_than_aiohttp_would_read_is_read() -> None:
    assert len(await lines(Chunks(b"x" * 5_000_000, b"y" * 5_000_000 + b"\n")).next()) == 10_000_000


async def test_a_line_that_nobody_could_hold_asks_for_a_listing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(etcd_http, "LONGEST_LINE_BYTES", 10)
    with pytest.raises(Compacted, match="larger than 10 bytes"):
        await lines(Chunks(b"x" * 11)).next()


@pytest.mark.parametrize("endpoints", [(), ("127.0.0.1:2379",), ("http://a", "ftp://b")])
def test_endpoints_that_are_no_urls_are_refused(endpoints: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="endpoints"):
        EtcdAccess(endpoints)


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_a_ca_file_that_cannot_be_used_is_refused_at_once(content: str | None, tmp_path: Path) -> None:
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ValueError, match=r"ca_file .*ca\.pem"):
        EtcdTransport(EtcdAccess(("https://a",), ca_file=str(path)))
