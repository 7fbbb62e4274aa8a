"""Reference pages say what the code says."""

from pathlib import Path

import pytest
import yaml

from leadsman.decision.policy import Policy
from leadsman.state import keys
from leadsman.state.records import Record
from website import reference_pages
from website.links import PROJECT_PAGES

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("record", keys.RECORD_BY_KIND.values())
def test_every_record_has_a_section_with_its_fields(record: type[Record]) -> None:
    page = reference_pages.records_page()
    section = page.split(f"## {record.__name__}\n")[1].split("\n## ")[0]
    assert [field for field in record.__struct_fields__ if f"| `{field}` |" not in section] == []


def test_every_section_of_the_policy_is_described() -> None:
    page = reference_pages.policy_page()
    assert [name for name in Policy.__struct_fields__ if f"| `{name}` |" not in page] == []


def test_the_navigation_names_pages_that_exist_or_are_made() -> None:
    settings = yaml.safe_load((DOCS.parent / "website/mkdocs.yml").read_text())
    pages = [
        page
        for section in settings["nav"]
        for entries in section.values()
        for each in entries
        for page in each.values()
    ]
    written = [page for page in pages if not page.startswith("reference/") and page not in PROJECT_PAGES.values()]
    assert len(pages) == len(set(pages))
    assert [page for page in written if not (DOCS / page).is_file()] == []
