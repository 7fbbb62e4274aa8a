"""Finds the type of everything in a tree, what it reads, and on whose values it depends. What cannot be is refused.

An expression depends on *scopes*, such as the pod, or what a node reports. One that depends on a single scope is
computed for that scope alone. Where two meet, their values are joined over arrays, by functions that can.
"""

import operator
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from msgspec import Struct

from leadsman.decision.cel.functions import FUNCTIONS, Function, Kind
from leadsman.decision.cel.pattern import BadPattern, Pattern
from leadsman.decision.cel.syntax import BadExpression, Call, Items, Literal, Name, Select, Tree

LOGIC = frozenset({"&&", "||", "!", "?:"})

JOINING = "only && || ! ?:, comparisons of numbers, == and !=, arithmetic of doubles and comparisons of quantities may"


class Field(Struct, frozen=True):
    """A field of a variable.

    scope: what it depends on, as it is called in errors. read: its value in that scope's source; Unknown, or a missing
    key of a map, when there is none. is_map: its values, by key, are of `kind`.
    """

    kind: Kind
    scope: str
    read: Callable[[Any], Any]
    is_map: bool = False


Schema = Mapping[str, Mapping[str, Field]]
"""Variable → field → what it is."""


class Constant(Struct, frozen=True):
    kind: Kind
    text: str
    value: bool | int | float | str
    scopes: frozenset[str] = frozenset()


class Read(Struct, frozen=True):
    """path: variable, field, and key where the field is a map. is_presence: asks whether the key is there."""

    kind: Kind
    text: str
    path: tuple[str, ...]
    field: Field
    scopes: frozenset[str]
    is_presence: bool = False


class Apply(Struct, frozen=True):
    """function: None for LOGIC, which may not need all of its arguments."""

    kind: Kind
    text: str
    name: str
    function: Function | None
    arguments: tuple["Expression", ...]
    scopes: frozenset[str]


Expression = Constant | Read | Apply

KIND_OF_LITERAL = {bool: Kind.BOOL, int: Kind.INT, float: Kind.DOUBLE, str: Kind.STRING}


def check(tree: Tree, text: str, schema: Schema) -> Expression:
    """The tree with its types. text: what it was read from. BadExpression."""
    return _Checker(text, schema).check(tree)


def reads(expression: Expression) -> frozenset[Read]:
    """Everything that is read of the sources."""
    if isinstance(expression, Read):
        return frozenset({expression})
    arguments = expression.arguments if isinstance(expression, Apply) else ()
    return frozenset[Read]().union(*map(reads, arguments))


class _Checker:
    def __init__(self, text: str, schema: Schema) -> None:
        self._text, self._schema = text, schema

    def check(self, tree: Tree) -> Expression:
        match tree:
            case Literal():
                return Constant(KIND_OF_LITERAL[type(tree.value)], _shown(tree.value), tree.value)
            case Select():
                return self._read(tree)
            case Call(name="in"):
                return self._in(tree)
            case Call():
                return self._call(tree)
            case Name():
                raise self._bad(tree, f"got {tree.name}, allowed {self._variables()} and functions of them")
            case Items():
                raise self._bad(
                    tree, "got a list, allowed after `in` and before a macro, as in [1, 2].exists(x, x > 1)"
                )

    def _bad(self, tree: Tree, what: str) -> BadExpression:
        return BadExpression(what, self._text, tree.position)

    def _variables(self) -> str:
        return ", ".join(f"{name}.{field}" for name, fields in self._schema.items() for field in fields)

    def _read(self, tree: Select) -> Read:
        variable, field, key = self._path(tree)
        described = self._schema[variable][field]
        name = f"{variable}.{field}"
        if described.is_map and key is None:
            raise self._bad(tree, f'got {name}, which is a map; write {name}["key"] or "key" in {name}')
        if not described.is_map and key is not None:
            raise self._bad(tree, f"got a field of {name}, which is a {described.kind}")
        path = (variable, field) if key is None else (variable, field, key)
        shown = name if key is None else f"{name}[{_shown(key)}]"
        return Read(described.kind, shown, path, described, frozenset({described.scope}))

    def _path(self, tree: Tree) -> tuple[str, str, str | None]:
        """Variable, field and key of `node.name`, `node.labels.zone` or `node.labels["zone"]`."""
        keys, root = list[str](), tree
        while isinstance(root, Select):
            keys.append(root.field)
            root = root.operand
        if not isinstance(root, Name):
            raise self._bad(tree, "got a field of a value, allowed fields of " + ", ".join(self._schema))
        fields = self._schema.get(root.name)
        if fields is None:
            raise self._bad(root, f"got {root.name}, allowed {', '.join(self._schema)}")
        field, *rest = reversed(keys)
        if field not in fields:
            raise self._bad(tree, f"{root.name} has no field {field[:40]!r}; it has {', '.join(fields)}")
        if len(rest) > 1:
            raise self._bad(tree, f"got a field of a value of {root.name}.{field}, which has none")
        return root.name, field, rest[0] if rest else None

    def _call(self, tree: Call) -> Expression:
        if tree.name == "has" and not tree.is_method:
            return self._has(tree)
        if tree.name in LOGIC:
            return self._logic(tree)
        if tree.name == "matches":
            return self._matches(tree)
        arguments = tuple(map(self.check, tree.arguments))
        overloads = FUNCTIONS.get((tree.name, tree.is_method))
        if overloads is None:
            raise self._bad(tree, f"got {tree.name[:40]}(), allowed {_names(is_method=tree.is_method)}")
        function = overloads.get(tuple(argument.kind for argument in arguments))
        if function is None:
            got = ", ".join(argument.kind for argument in arguments)
            allowed = " or ".join(f"({', '.join(kinds)})" for kinds in overloads)
            raise self._bad(tree, f"{tree.name} got ({got}), allowed {allowed}")
        return self._applied(tree, function, arguments)

    def _applied(
        self,
        tree: Call,
        function: Function,
        arguments: tuple[Expression, ...],
        shown: tuple[Expression, ...] = (),
    ) -> Apply:
        """shown: the arguments as they are written, where they are others."""
        scopes = frozenset[str]().union(*(argument.scopes for argument in arguments))
        if len(scopes) > 1 and function.joined is None:
            raise self._bad(tree, f"{tree.name} joins {' with '.join(sorted(scopes))}; {JOINING}")
        return Apply(function.result, _called(tree, shown or arguments), tree.name, function, arguments, scopes)

    def _has(self, tree: Call) -> Read:
        """`has(node.labels.gpu)`"""
        operand = tree.arguments[0] if len(tree.arguments) == 1 else None
        if not isinstance(operand, Select) or operand.is_index or not isinstance(operand.operand, Select):
            raise self._bad(
                tree, 'has() takes a key of a map, as in has(node.labels.gpu); or write "gpu" in node.labels'
            )
        return self._presence(self._read(operand))

    def _presence(self, read: Read) -> Read:
        *_, key = read.path
        shown = f"{_shown(key)} in {'.'.join(read.path[:2])}"
        return Read(Kind.BOOL, shown, read.path, read.field, read.scopes, is_presence=True)

    def _in(self, tree: Call) -> Expression:
        """`"gpu" in node.labels`, or `node.zone in ["a", "b"]`."""
        one, several = tree.arguments
        if isinstance(several, Items):
            operand, items = self.check(one), tuple(map(self.check, several.items))
            if not all(isinstance(item, Constant) and item.kind is operand.kind for item in items):
                raise self._bad(several, f"got a list of other things, allowed literals of {operand.kind}")
            values = tuple(item.value for item in items if isinstance(item, Constant))
            contains = Function("in", (operand.kind,), Kind.BOOL, partial(operator.contains, values))
            listed = Constant(operand.kind, f"[{', '.join(item.text for item in items)}]", "")
            return self._applied(tree, contains, (operand,), (operand, listed))
        if not isinstance(one, Literal) or not isinstance(one.value, str) or not isinstance(several, Select):
            raise self._bad(
                tree, '`in` takes a key and a map, as "gpu" in node.labels, or a value and a list of literals'
            )
        return self._presence(self._read(Select(several.position, several, one.value)))

    def _matches(self, tree: Call) -> Apply:
        """`node.zone.matches("^eu-")`, whose pattern is compiled here."""
        operands = tree.arguments[:1] if len(tree.arguments) == 2 else ()
        pattern = tree.arguments[-1] if operands else None
        checked = tuple(map(self.check, operands))
        if not isinstance(pattern, Literal) or not isinstance(pattern.value, str) or checked[0].kind is not Kind.STRING:
            raise self._bad(tree, 'matches() takes a string and a pattern that is written out, as in matches("^eu-")')
        try:
            matches = Function("matches", (Kind.STRING,), Kind.BOOL, Pattern(pattern.value).matches)
        except BadPattern as error:
            raise self._bad(pattern, f"the pattern cannot be used: {error}") from error
        return self._applied(tree, matches, checked, (*checked, Constant(Kind.STRING, _shown(pattern.value), "")))

    def _logic(self, tree: Call) -> Apply:
        arguments = tuple(map(self.check, tree.arguments))
        conditions = arguments[:1] if tree.name == "?:" else arguments
        for argument, given in zip(conditions, tree.arguments, strict=False):
            if argument.kind is not Kind.BOOL:
                raise self._bad(given, f"got {argument.kind} beside {tree.name}, allowed bool")
        if tree.name == "?:" and arguments[1].kind is not arguments[2].kind:
            raise self._bad(
                tree, f"?: chooses between {arguments[1].kind} and {arguments[2].kind}, allowed is one type"
            )
        kind = arguments[1].kind if tree.name == "?:" else Kind.BOOL
        scopes = frozenset[str]().union(*(argument.scopes for argument in arguments))
        return Apply(kind, _called(tree, arguments), tree.name, None, arguments, scopes)


def _names(*, is_method: bool) -> str:
    names = sorted({name for name, method in FUNCTIONS if method is is_method and name[0].isalpha()})
    return ", ".join(f".{name}()" if is_method else f"{name}()" for name in names)


def _shown(value: bool | int | float | str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
    return repr(value)


def _called(tree: Call, arguments: Sequence[Expression]) -> str:
    texts = [argument.text for argument in arguments]
    if tree.is_method:
        return f"{texts[0]}.{tree.name}({', '.join(texts[1:])})"
    if tree.name[0].isalpha() and tree.name != "in":
        return f"{tree.name}({', '.join(texts)})"
    if tree.name == "?:":
        return "({} ? {} : {})".format(*texts)
    return f"{tree.name}{texts[0]}" if len(texts) == 1 else f"({texts[0]} {tree.name} {texts[1]})"
