"""Selects devices by the CEL expressions of DeviceClasses and ResourceClaims.

A driver publishes devices with attributes and capacities; a class or a claim says by an expression which of them it
means. The PyPI library `common-expression-language` (the extra `dra`) evaluates it. What Kubernetes adds to CEL for
devices (k8s.io/dynamic-resource-allocation/cel/compile.go) is added here: quantities, versions, `cel.bind`, and that a
domain in which a device has no attribute is an empty map.

Where CEL has an error, such as an attribute that is not there, nothing is selected; the allocator fails the pod then,
but a rank is no place to report that. An expression that cannot be evaluated here, or not without the extra, is a
BadSelector with its reason, never a verdict.

Most devices of a cluster are alike in what an expression reads, though each has a UUID: verdicts are kept by the values
that are read, of whichever generation of a ResourceSlice.
"""

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import Any, TypeVar

from leadsman.kube import quantity
from leadsman.runtime.lru import LruCache
from leadsman.sources.cluster.device_objects import CapacityFields, DeviceAttribute, DeviceFields

V = TypeVar("V")

MAX_CHARACTERS = 1_024
MAX_LOOPS, MAX_BINDS = 1, 8
"""An expression may have one of `all`, `exists`, `exists_one`, `map` and `filter`, and eight `cel.bind`. One loop
within another over what 1,024 characters can list takes a second; the API server lets that pass, and the extender
answers nobody meanwhile."""

MAX_VERDICTS = 1_024

NOT_INSTALLED = "selectors need the package common-expression-language: pip install 'leadsman[dra]'"

DEVICE_FIELDS = frozenset({"driver", "allowMultipleAllocations", "attributes", "capacity"})

_NATIVE = frozenset(
    ("size", "contains", "startsWith", "endsWith", "matches", "int", "uint", "double", "string", "bytes", "dyn", "type")
)
_FIELD = re.compile(r"\bdevice\s*\.\s*(\w+)")
_WHOLE_DEVICE = re.compile(r"\bdevice\b(?!\s*\.)")
_WHOLE_MAP = re.compile(r"\bdevice\s*\.\s*(attributes|capacity)\b(?!\s*\[)")
_DOMAIN = re.compile(r"\bdevice\s*\.\s*(?:attributes|capacity)\s*\[\s*(?:\"([^\"]*)\"|'([^']*)')\s*\]")
_OPEN_DOMAIN = re.compile(rf"(?<!in ){_DOMAIN.pattern}(?!\s*[.\[,])")
_LOOP = re.compile(r"\.\s*(?:all|exists|exists_one|map|filter)\s*\(\s*(\w+)\s*,")
_BIND = re.compile(r"\bcel\s*\.\s*bind\s*\(")
_TEXT = r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'"
_PATTERN = re.compile(rf"\.\s*matches\s*\(\s*(r?(?:{_TEXT}))\s*\)")
_BRACKETS = re.compile(rf"{_TEXT}|[()\[\]{{}},]")


@cache
def library() -> ModuleType | None:
    """Returns the library's module, loaded when the first selector is met; None: it is not installed.

    `import cel` would import its command line too, with prompt_toolkit and rich: 15 MB and 0.5 s in place of 2 MB.
    """
    package = find_spec("cel")
    spec = package and PathFinder.find_spec("cel", package.submodule_search_locations)
    if spec is None or spec.loader is None:
        return None
    logging.getLogger("cel").setLevel(logging.CRITICAL)  # Each error of an expression would be a line of the log.
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class BadSelector(ValueError):
    """The expression cannot be evaluated here; the text says why."""


class Selector:
    """Evaluates one expression. Raises BadSelector."""

    def __init__(self, text: str) -> None:
        if len(text) > MAX_CHARACTERS:
            raise BadSelector(f"got {len(text):,} characters, allowed {MAX_CHARACTERS:,}")
        fields = set(_FIELD.findall(text))
        if unknown := fields - DEVICE_FIELDS:
            raise BadSelector(f"device.{min(unknown)} is not known here")
        self._fields = DEVICE_FIELDS if _WHOLE_DEVICE.search(text) else fields
        loops = len(_LOOP.findall(text))
        if loops > MAX_LOOPS:
            raise BadSelector(f"got {loops} loops over lists, allowed {MAX_LOOPS}")
        self._domains = frozenset(filter(None, (one for match in _DOMAIN.findall(text) for one in match)))
        # Without these, a name that is read stands in the text.
        reads_any = loops or _OPEN_DOMAIN.search(text) or "+" in text or "size" in text
        self._words = None if reads_any else frozenset(re.findall(r"\w+", text))
        text, self._lists_domains = _WHOLE_MAP.subn(r"device.listed_\1", _without_binds(text))
        self._compile(text)
        self._verdicts: LruCache[tuple[Any, ...], bool] = LruCache(MAX_VERDICTS)

    def selects(self, driver: str, device: DeviceFields) -> bool:
        """Tells whether the expression is true of the driver's device."""
        attributes = self._read(driver, device.attributes) if "attributes" in self._fields else {}
        capacity = self._read(driver, device.capacity) if "capacity" in self._fields else {}
        read = (tuple((domain, *named.items()) for domain, named in each.items()) for each in (attributes, capacity))
        key = (driver, device.allow_multiple_allocations, *read)
        verdict = self._verdicts.get(key)
        if verdict is None:
            verdict = self._evaluate(driver, device, attributes, capacity)
            self._verdicts.put(key, verdict)
        return verdict

    def _compile(self, text: str) -> None:
        cel = library()
        if cel is None:
            raise BadSelector(NOT_INSTALLED)
        try:
            self._program = cel.compile(text)
            for pattern in _PATTERN.findall(text):
                cel.compile(f"''.matches({pattern})").execute()
        except (ValueError, RuntimeError) as error:
            raise BadSelector(_first_line(error)) from error
        functions = {each for each in self._program.functions() if each.isidentifier()} - _NATIVE
        if unknown := functions - _FUNCTIONS.keys():
            raise BadSelector(f"got {min(unknown)}(), which is not known here")
        if unknown := set(self._program.variables()) - {"device", *_LOOP.findall(text)}:
            raise BadSelector(f"got {min(unknown)}, allowed device")
        self._new_context: Callable[[], Any] = lambda: cel.Context({}, {name: _FUNCTIONS[name] for name in functions})

    def _read(self, driver: str, fields: Mapping[str, V]) -> dict[str, dict[str, V]]:
        """Maps domain → identifier → what the expression may read. A domain of which it reads nothing is empty."""
        read: dict[str, dict[str, V]] = {}
        for name, value in fields.items():
            domain, _, identifier = name.rpartition("/")
            named = read.setdefault(domain or driver, {})
            if self._words is None or identifier in self._words:
                named[identifier] = value
        return read

    def _evaluate(
        self,
        driver: str,
        device: DeviceFields,
        read_attributes: Mapping[str, Mapping[str, DeviceAttribute]],
        read_capacity: Mapping[str, Mapping[str, CapacityFields]],
    ) -> bool:
        attributes = {
            domain: {key: value for key, each in named.items() if (value := _value(each)) is not None}
            for domain, named in read_attributes.items()
        }
        capacity = {
            domain: {key: _quantity(str(each.value)) for key, each in named.items()}
            for domain, named in read_capacity.items()
        }
        empty: Mapping[str, Any] = {domain: {} for domain in self._domains}
        variable: dict[str, Any] = {
            "driver": driver,
            "allowMultipleAllocations": bool(device.allow_multiple_allocations),
            "attributes": {**empty, **attributes},
            "capacity": {**empty, **capacity},
        }
        variable = {field: variable[field] for field in self._fields}
        if self._lists_domains:
            variable |= {"listed_attributes": attributes, "listed_capacity": capacity}
        context = self._new_context()
        context.add_variable("device", variable)
        try:
            return self._program.execute(context) is True
        except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError):
            return False


def _without_binds(text: str) -> str:
    """Returns the text with `[value].map(name, body)[0]` for each `cel.bind(name, value, body)`, which the library does
    not have."""
    for _ in range(MAX_BINDS):
        found = list(_BIND.finditer(text))
        if not found:
            return text
        last = found[-1]  # Has no other within it.
        arguments, end = _arguments(text, last.end())
        if len(arguments) != 3:
            raise BadSelector("cel.bind() takes a name, its value and an expression")
        name, value, body = arguments
        text = f"{text[: last.start()]}[{value}].map({name.strip()}, {body})[0]{text[end:]}"
    raise BadSelector(f"got more than {MAX_BINDS} cel.bind()")


def _arguments(text: str, start: int) -> tuple[Sequence[str], int]:
    """Returns the arguments of the call whose bracket opens before `start`, and where it ends."""
    arguments, depth = list[str](), 0
    for match in _BRACKETS.finditer(text, start):
        sign = match[0]
        if depth == 0 and sign in ",)":
            arguments.append(text[start : match.start()])
            start = match.end()
            if sign == ")":
                return arguments, start
        depth += (sign in "([{") - (sign in ")]}")
    raise BadSelector("a bracket of cel.bind() is not closed")


def _first_line(error: Exception) -> str:
    """Returns the library's message, without the expression, which it repeats."""
    _, _, what = str(error).partition("ERROR: <input>:")
    return (what or str(error)).splitlines()[0][:200]


def _value(attribute: DeviceAttribute) -> Any:
    """Returns the value of an attribute; None: a list, or what is no version, which is not read."""
    if attribute.version is not None:
        return _semver(attribute.version) if version_key(attribute.version) else None
    values = (attribute.boolean, attribute.integer, attribute.string)
    return next((value for value in values if value is not None), None)


# The library knows no types of its own for these: each is a map with one entry, equal where Kubernetes finds it
# equal.

_Quantity = Mapping[str, str]
"""{"quantity": nanos}, as text because they do not fit 64 bits."""

_Version = Mapping[str, str]
"""{"version": text}, without what says how it was built."""

VersionKey = tuple[int, int, int, bool, tuple[tuple[bool, int, str], ...]]
"""major, minor, patch, whether it is a release, and the identifiers of its pre-release."""

_NUMBER, _WORD = r"(0|[1-9][0-9]{0,17})", r"[0-9A-Za-z-]+"
_SEMVER = re.compile(
    rf"({_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-({_WORD}(?:\.{_WORD})*))?)(?:\+{_WORD}(?:\.{_WORD})*)?", re.ASCII
)


def version_key(text: str) -> VersionKey | None:
    """Returns a key that sorts as versions do (semver.org 2.0.0): a number below a word, a pre-release below its
    release; None: it is no version."""
    match = _SEMVER.fullmatch(text) if len(text) <= 64 else None
    if match is None:
        return None
    identifiers = match[5].split(".") if match[5] else []
    order = tuple((False, int(each), "") if each.isdecimal() else (True, 0, each) for each in identifiers)
    return int(match[2]), int(match[3]), int(match[4]), not identifiers, order


def _quantity(text: str) -> _Quantity:
    return {"quantity": str(quantity.parse(text))}


def _semver(text: str) -> _Version:
    _key({"version": text})
    return {"version": text.partition("+")[0]}


def _key(version: _Version) -> VersionKey:
    key = version_key(version["version"])
    if key is None:
        raise ValueError(f"{version['version'][:64]!r} is no version")
    return key


def _compared(left: Mapping[str, str], right: Mapping[str, str]) -> int:
    first, second = _sortable(left), _sortable(right)
    return int(first > second) - int(first < second)


def _sortable(value: Mapping[str, str]) -> Any:
    return int(value["quantity"]) if "quantity" in value else _key(value)


def _is_quantity(text: str) -> bool:
    try:
        quantity.parse(text)
    except quantity.BadQuantity:
        return False
    return True


_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "quantity": _quantity,
    "isQuantity": _is_quantity,
    "semver": _semver,
    "isSemver": lambda text: version_key(text) is not None,
    "compareTo": _compared,
    "isGreaterThan": lambda left, right: _compared(left, right) > 0,
    "isLessThan": lambda left, right: _compared(left, right) < 0,
    "major": lambda version: _key(version)[0],
    "minor": lambda version: _key(version)[1],
    "patch": lambda version: _key(version)[2],
    "lowerAscii": lambda text: re.sub("[A-Z]", lambda match: match[0].lower(), text),
    "upperAscii": lambda text: re.sub("[a-z]", lambda match: match[0].upper(), text),
}
"""Functions of Kubernetes' CEL libraries by name; what they raise is an error of CEL."""
