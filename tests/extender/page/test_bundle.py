"""The joined page, without a browser."""

import base64
import hashlib
import re

import pytest

from extender.page.bundle import content_security_policy, document

DOCUMENT = document().decode()


@pytest.mark.parametrize(("tag", "directive"), [("script", "script-src"), ("style", "style-src")])
def test_the_policy_admits_what_the_document_holds_and_nothing_else(tag: str, directive: str) -> None:
    (text,) = re.findall(rf"<{tag}[^>]*>(.*?)</{tag}>", DOCUMENT, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    assert f"{directive} 'sha256-{digest}';" in content_security_policy()


def test_the_document_asks_nothing_of_another_host() -> None:
    hosts = re.findall(r"https?://[^\s\"')]+", re.sub(r"^ *(/?\*|//).*$", "", DOCUMENT, flags=re.MULTILINE))
    assert set(hosts) <= {"http://www.w3.org/2000/svg"}  # a name, never fetched
