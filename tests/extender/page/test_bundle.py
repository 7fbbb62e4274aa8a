"""The joined page, without a browser."""

import base64
import hashlib
import re
from importlib import resources

import pytest

from extender.page.bundle import bundle, content_security_policy

DOCUMENT = bundle()["/"][1].decode()
SCRIPTS = {
    script.name: script.read_text("utf-8") for script in resources.files("extender.page").joinpath("script").iterdir()
}


@pytest.mark.parametrize(("tag", "directive"), [("script", "script-src"), ("style", "style-src")])
def test_the_policy_admits_what_the_document_holds_and_nothing_else(tag: str, directive: str) -> None:
    (text,) = re.findall(rf"<{tag}[^>]*>(.*?)</{tag}>", DOCUMENT, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    assert f"{directive} 'sha256-{digest}';" in content_security_policy()


def test_each_module_stands_once_in_the_document_behind_those_it_imports() -> None:
    places = {name: DOCUMENT.index(f"// {name}\n") for name in SCRIPTS}
    assert all(DOCUMENT.count(f"// {name}\n") == 1 for name in SCRIPTS)
    for name, source in SCRIPTS.items():
        imported = re.findall(r'from "\./([a-z_]+\.js)"', source)
        assert all(places[each] < places[name] for each in imported), name


def test_no_import_or_export_is_left() -> None:
    (script,) = re.findall(r"<script[^>]*>(.*?)</script>", DOCUMENT, re.DOTALL)
    assert not re.search(r"^(import|export)\b", script, re.MULTILINE)


def test_the_document_asks_nothing_of_another_host() -> None:
    hosts = re.findall(r"https?://[^\s\"')]+", re.sub(r"^ *(/?\*|//).*$", "", DOCUMENT, flags=re.MULTILINE))
    assert set(hosts) <= {"http://www.w3.org/2000/svg"}  # a name, never fetched


@pytest.mark.parametrize(
    "sink", ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "srcdoc"]
)
def test_no_module_reads_html_or_code_from_a_string(sink: str) -> None:
    assert [name for name, source in SCRIPTS.items() if sink in source] == []
