"""The table of a run: what a line of it says, and what the docs make of it."""

from pathlib import Path

import msgspec
import pytest

from tests.e2e import document
from tests.e2e.report import Report, Result

STREAMED = Result("loss of a node", True, 61.5, "", 496, 0, 0, 57.04, 0.2)
BROKEN = Result("removal", False, 12.0, "RuntimeError: left behind: Secret/a|b")


def report(*results: Result) -> Report:
    return Report("2026-11-22T18:30+00:00", "2 cores with a load of 1", "v1.36.2", "make e2e", [*results])


def test_a_row_with_a_stream_shows_what_became_of_its_pods() -> None:
    assert str(STREAMED).split()[-6:] == ["61.5", "496", "0", "0", "57.0", "0.2"]


def test_a_row_that_broke_says_why() -> None:
    assert str(BROKEN).endswith("BROKEN  RuntimeError: left behind: Secret/a|b")


def test_all_rows_together_count_every_pod_and_are_kept_only_if_each_is() -> None:
    total = report(STREAMED, STREAMED, BROKEN).total
    assert (total.sent, total.kept) == (992, False)
    assert report(STREAMED).total.kept


def test_what_is_saved_can_be_read_again(tmp_path: Path) -> None:
    report(STREAMED, BROKEN).save(tmp_path / "table.json")
    assert msgspec.json.decode((tmp_path / "table.json").read_bytes(), type=Report) == report(STREAMED, BROKEN)


def test_the_docs_table_is_replaced_and_the_rest_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{document.BEGIN}an older table\n{document.END}after\n")
    monkeypatch.setattr(document, "PAGE", page)
    report(STREAMED, BROKEN).save(tmp_path / "table.json")
    document.main([str(tmp_path / "table.json")])
    text = page.read_text()
    assert text.startswith(f"before\n{document.BEGIN}`make e2e`, 2026-11-22, Kubernetes v1.36.2")
    assert text.endswith(f"{document.END}after\n")
    assert "| loss of a node | 62 | 496 | 0 | 0 | 57.0 | 0.2 |  |\n" in text
    assert "| removal | 12 |  |  |  |  |  | **broken** RuntimeError: left behind: Secret/a\\|b |\n" in text
    assert "older" not in text


def test_the_docs_have_the_place_for_the_table() -> None:
    assert document.PAGE.read_text().count(document.BEGIN) == 1
    assert document.PAGE.read_text().count(document.END) == 1
