"""Links of the documents as links of the site."""

import pytest

from website.links import site_path


@pytest.mark.parametrize(
    ("source", "link", "expected"),
    [
        ("operating.md", "etcd.md", "etcd.md"),
        ("decisions/0001-a.md", "../etcd.md", "etcd.md"),
        ("architecture.md", "../CONTRIBUTING.md", "project/CONTRIBUTING.md"),
        ("index.md", "docs/etcd.md", "etcd.md"),
        ("index.md", "CONTRIBUTING.md", "project/CONTRIBUTING.md"),
        ("architecture.md", "../README.md", "index.md"),
        ("delays.md", "../examples/policy.yaml", "examples/policy.yaml"),
    ],
)
def test_a_link_leads_to_the_page_of_the_site(source: str, link: str, expected: str) -> None:
    assert site_path(source, link) == expected
