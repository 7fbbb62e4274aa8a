"""Selects things whose values bring their types along, such as devices with their attributes: text in, a verdict out.

What `checker` finds once for a rule is found here for each value: an attribute of one device may be a number, and of
another one text. Verdicts are kept by what was read, because most devices of a cluster are alike.
"""

from collections.abc import Callable, Mapping

from leadsman.decision.cel.checker import KIND_OF_LITERAL, LOGIC
from leadsman.decision.cel.functions import FUNCTIONS, Kind, Unknown, Value
from leadsman.decision.cel.macros import expand
from leadsman.decision.cel.pattern import BadPattern, Pattern
from leadsman.decision.cel.syntax import BadExpression, Call, Items, Literal, Name, Select, Tree, parse
from leadsman.runtime.lru import LruCache

Path = tuple[str, ...]
"""`device.attributes["gpu.example.com"].model`: its four words. With fewer: whether anything is below."""

Typed = tuple[Kind, Value]
Things = Mapping[Path, Typed]
"""The values that are read of one thing."""

Evaluate = Callable[[Things], Typed]

MAX_VERDICTS = 1_024

_NAMES = frozenset(name for name, _ in FUNCTIONS)


class Selector:
    """Compiles an expression. BadExpression.

    depths: the fields that there are, as ("device", "attributes") → how many keys lead to a value of it.
    """

    def __init__(self, text: str, depths: Mapping[Path, int]) -> None:
        self._text, self._depths = text, depths
        self._reads: dict[Path, None] = {}
        self._evaluate = self._compiled(expand(parse(text), text))
        self._verdicts: LruCache[tuple[Typed | None, ...], bool] = LruCache(MAX_VERDICTS)

    def selects(self, value_at: Callable[[Path], Typed | None]) -> bool:
        """Whether it is true of the thing with these values; not where CEL has an error, as what is read is absent."""
        read = tuple(map(value_at, self._reads))
        verdict = self._verdicts.get(read)
        if verdict is None:
            values = {path: value for path, value in zip(self._reads, read, strict=True) if value is not None}
            try:
                verdict = self._evaluate(values) == (Kind.BOOL, True)
            except Unknown:
                verdict = False
            self._verdicts.put(read, verdict)
        return verdict

    def _bad(self, tree: Tree, what: str) -> BadExpression:
        return BadExpression(what, self._text, tree.position)

    def _compiled(self, tree: Tree) -> Evaluate:
        match tree:
            case Literal(value=value):
                literal = (KIND_OF_LITERAL[type(value)], value)
                return lambda values: literal
            case Select():
                return _reader(self._path(tree, missing_keys=0))
            case Call():
                return self._call(tree)
            case _:
                raise self._bad(tree, "got a list or a variable where a value is read")

    def _call(self, tree: Call) -> Evaluate:
        match tree:
            case Call(name="has", arguments=(Select() as operand,)):
                return _presence(self._path(operand, missing_keys=0))
            case Call(name="in"):
                return self._in(tree)
            case Call(name="matches"):
                return self._matches(tree)
            case Call(name=name) if name in LOGIC:
                return _LOGIC[name](*map(self._compiled, tree.arguments))
            case Call(name=name) if name in _NAMES:
                return _applied(name, tree.is_method, [self._compiled(each) for each in tree.arguments])
        raise self._bad(tree, f"got {tree.name[:40]}(), which is not evaluated here")

    def _path(self, tree: Tree, missing_keys: int) -> Path:
        """Of a chain of fields and keys. missing_keys: how many keys short of a value it stops."""
        keys, root = list[str](), tree
        while isinstance(root, Select):
            keys.append(root.field)
            root = root.operand
        path = (root.name, *reversed(keys)) if isinstance(root, Name) else ()
        depth = self._depths.get(path[:2])
        if depth is None or len(path) != 2 + depth - missing_keys:
            allowed = ", ".join(".".join(field) + "[…]" * keys for field, keys in self._depths.items())
            raise self._bad(tree, f"got {'.'.join(path)[:80] or 'a field of a value'}, allowed {allowed}")
        self._reads[path] = None
        return path

    def _in(self, tree: Call) -> Evaluate:
        one, several = tree.arguments
        if isinstance(several, Items):
            equal = (Call(tree.position, "==", (one, item)) for item in several.items)
            return _any([self._compiled(each) for each in equal])
        if not isinstance(one, Literal) or not isinstance(one.value, str):
            raise self._bad(tree, "`in` takes a key and a map, or a value and a list")
        below = Select(tree.position, several, one.value)
        is_value = len(_words(below)) == 2 + self._depths.get(_words(below)[:2], 0)
        return _presence(self._path(below, missing_keys=0 if is_value else 1))

    def _matches(self, tree: Call) -> Evaluate:
        operand, pattern = tree.arguments if len(tree.arguments) == 2 else (None, None)
        if operand is None or not isinstance(pattern, Literal) or not isinstance(pattern.value, str):
            raise self._bad(tree, "matches() takes a text and a pattern that is written out")
        try:
            compiled = Pattern(pattern.value)
        except BadPattern as error:
            raise self._bad(pattern, f"the pattern cannot be used: {error}") from error
        text = self._compiled(operand)

        def matches(values: Things) -> Typed:
            kind, value = text(values)
            if kind is not Kind.STRING:
                raise Unknown(f"matches() got {kind}")
            return Kind.BOOL, compiled.matches(value)

        return matches


def _words(tree: Tree) -> Path:
    return (*_words(tree.operand), tree.field) if isinstance(tree, Select) else (getattr(tree, "name", ""),)


def _reader(path: Path) -> Evaluate:
    def read(values: Things) -> Typed:
        try:
            return values[path]
        except KeyError:
            raise Unknown(f"{'.'.join(path)} is not there") from None

    return read


def _presence(path: Path) -> Evaluate:
    return lambda values: (Kind.BOOL, path in values)


def _applied(name: str, is_method: bool, arguments: list[Evaluate]) -> Evaluate:
    overloads = FUNCTIONS.get((name, is_method), {})

    def apply(values: Things) -> Typed:
        typed = [argument(values) for argument in arguments]
        function = overloads.get(tuple(kind for kind, _ in typed))
        if function is None:
            raise Unknown(f"no {name} of {', '.join(kind for kind, _ in typed)}")
        return function.result, function.scalar(*(value for _, value in typed))

    return apply


def _bool(evaluate: Evaluate, values: Things) -> bool:
    kind, value = evaluate(values)
    if kind is not Kind.BOOL:
        raise Unknown(f"got {kind}, allowed bool")
    return bool(value)


def _absorbing(absorber: bool) -> Callable[[Evaluate, Evaluate], Evaluate]:
    """&& and ||: one side that decides is enough, whatever is unknown on the other."""

    def logic(left: Evaluate, right: Evaluate) -> Evaluate:
        def value(values: Things) -> Typed:
            try:
                if _bool(left, values) is absorber:
                    return Kind.BOOL, absorber
            except Unknown:
                if _bool(right, values) is absorber:
                    return Kind.BOOL, absorber
                raise
            return Kind.BOOL, _bool(right, values)

        return value

    return logic


def _any(options: list[Evaluate]) -> Evaluate:
    joined: Evaluate = lambda values: (Kind.BOOL, False)  # noqa: E731  # the value of an empty list
    for option in options:
        joined = _LOGIC["||"](joined, option)
    return joined


_LOGIC: Mapping[str, Callable[..., Evaluate]] = {
    "&&": _absorbing(False),
    "||": _absorbing(True),
    "!": lambda operand: lambda values: (Kind.BOOL, not _bool(operand, values)),
    "?:": lambda condition, chosen, other: lambda values: (chosen if _bool(condition, values) else other)(values),
}
