"""Joins the page's modules, styles and document into one file, and makes the policy that admits nothing else."""

import base64
import hashlib
import re
from collections.abc import Iterator
from functools import cache
from importlib import resources

_ENTRY = "main.js"
_IMPORT = re.compile(r'^import \{[^}]*\} from "\./([a-z_]+\.js)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|const|let|class) )", re.MULTILINE)
_FOLDER = resources.files(__package__)


@cache
def document() -> bytes:
    """Returns the one HTML file that is the page."""
    text = _FOLDER.joinpath("index.html").read_text("utf-8")
    return text.replace("/*style*/", _style()).replace("/*script*/", _script()).encode()


@cache
def content_security_policy() -> str:
    """Admits the page's one script and one style by their hashes, and requests to where the page came from.

    Trusted Types close the sinks that read HTML from a string (https://w3c.github.io/trusted-types/).
    """
    directives = {
        "default-src": "'none'",
        "script-src": _hash(_script()),
        "style-src": _hash(_style()),
        "connect-src": "'self'",
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
        "require-trusted-types-for": "'script'",
        "trusted-types": "'none'",
    }
    return "; ".join(f"{name} {value}" for name, value in directives.items())


def _hash(text: str) -> str:
    """Returns a hash source as in https://www.w3.org/TR/CSP3/#grammardef-hash-source."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _style() -> str:
    sheets = sorted(_FOLDER.joinpath("style").iterdir(), key=lambda sheet: sheet.name)
    return "\n" + "".join(sheet.read_text("utf-8") for sheet in sheets)


def _script() -> str:
    """Returns the modules in one scope, each behind those it imports. A name that two of them declare is a
    SyntaxError."""
    return "\n" + "".join(_joined(_ENTRY, set()))


def _joined(name: str, seen: set[str]) -> Iterator[str]:
    if name in seen:
        return
    seen.add(name)
    source = _FOLDER.joinpath("script", name).read_text("utf-8")
    for imported in _IMPORT.findall(source):
        yield from _joined(imported, seen)
    yield f"// {name}\n{_EXPORT.sub('', _IMPORT.sub('', source))}"
