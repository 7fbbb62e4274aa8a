"""Reads an expression into a tree. Grammar: github.com/google/cel-spec/blob/master/doc/langdef.md#syntax.

Without messages, bytes, unsigned numbers and maps that are written out. What is read is bounded before anything is made
of it.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from msgspec import Struct

MAX_CHARACTERS = 1_024
MAX_TOKENS = 256
MAX_DEPTH = 24
"""Of brackets and signs within each other."""

MAX_INT = 2**63 - 1


class BadExpression(ValueError):
    """The expression cannot be used: where, what is there, and what is allowed."""

    def __init__(self, what: str, text: str, position: int) -> None:
        line, column = text.count("\n", 0, position) + 1, position - text.rfind("\n", 0, position)
        super().__init__(f"line {line}, column {column}: {what}")


INDEX = "[]"


class Literal(Struct, frozen=True):
    position: int
    value: bool | int | float | str


class Name(Struct, frozen=True):
    position: int
    name: str


class Select(Struct, frozen=True):
    """`operand.field`, or `operand["field"]`."""

    position: int
    operand: "Tree"
    field: str
    is_index: bool = False


class Call(Struct, frozen=True):
    """A function, a method, whose first argument is its target, or an operator, whose name is as in `a && b`: `&&`.

    `operand[key]` is INDEX until macros are expanded, and then a Select.
    """

    position: int
    name: str
    arguments: tuple["Tree", ...]
    is_method: bool = False


class Items(Struct, frozen=True):
    """`[a, b]`"""

    position: int
    items: tuple["Tree", ...]


Tree = Literal | Name | Select | Call | Items


class _Token(NamedTuple):
    kind: str
    text: str
    position: int


_TOKEN = re.compile(
    r"""(?P<space>\s+|//[^\n]*)
    |(?P<float>\d+\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+)
    |(?P<int>0x[0-9a-fA-F]+|\d+)
    |(?P<raw>[rR](?:"[^"\n]*"|'[^'\n]*'))
    |(?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<sign>&&|\|\||==|!=|<=|>=|[-+*/%<>!?:.,()\[\]])""",
    re.VERBOSE | re.ASCII,
)

_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|.)")
_ESCAPED = {
    "n": "\n",
    "t": "\t",
    "r": "\r",
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "v": "\v",
    "\\": "\\",
    '"': '"',
    "'": "'",
    "`": "`",
    "?": "?",
}

_BINARY: tuple[frozenset[str], ...] = (
    frozenset({"||"}),
    frozenset({"&&"}),
    frozenset({"==", "!=", "<", "<=", ">", ">=", "in"}),
    frozenset({"+", "-"}),
    frozenset({"*", "/", "%"}),
)
"""The loosest first; all group to the left."""

_CONSTANTS = {"true": True, "false": False}
_RESERVED = frozenset({*_CONSTANTS, "in"})


def parse(text: str) -> Tree:
    """The tree of an expression. BadExpression."""
    if len(text) > MAX_CHARACTERS:
        raise BadExpression(f"got {len(text):,} characters, allowed {MAX_CHARACTERS:,}", text, 0)
    return _Parser(text).whole()


def _tokens(text: str) -> Iterator[_Token]:
    position, count = 0, 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise BadExpression(f"got {text[position]!r}, which begins nothing that is known", text, position)
        if match.lastgroup != "space":
            count += 1
            if count > MAX_TOKENS:
                raise BadExpression(f"got more than {MAX_TOKENS} words and signs", text, position)
            yield _Token(match.lastgroup or "", match[0], position)
        position = match.end()
    yield _Token("end", "", len(text))


class _Parser:
    def __init__(self, text: str) -> None:
        self._text, self._tokens = text, list(_tokens(text))
        self._next, self._depth = 0, 0

    def whole(self) -> Tree:
        tree = self._condition()
        if self._token.kind != "end":
            raise self._unexpected("an operator or the end")
        return tree

    @property
    def _token(self) -> _Token:
        return self._tokens[self._next]

    def _take(self, *signs: str) -> _Token | None:
        """The next token, if it is one of these."""
        token = self._token
        if token.kind in ("sign", "name") and token.text in signs:
            self._next += 1
            return token
        return None

    def _expect(self, sign: str) -> None:
        if not self._take(sign):
            raise self._unexpected(repr(sign))

    def _unexpected(self, allowed: str) -> BadExpression:
        token = self._token
        got = repr(token.text) if token.text else "the end"
        return BadExpression(f"got {got}, allowed {allowed}", self._text, token.position)

    def _condition(self) -> Tree:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise BadExpression(f"got a nesting deeper than {MAX_DEPTH}", self._text, self._token.position)
        tree = self._binary(0)
        if question := self._take("?"):
            chosen = self._binary(0)
            self._expect(":")
            tree = Call(question.position, "?:", (tree, chosen, self._condition()))
        self._depth -= 1
        return tree

    def _binary(self, level: int) -> Tree:
        if level == len(_BINARY):
            return self._unary()
        tree = self._binary(level + 1)
        while operator := self._take(*_BINARY[level]):
            tree = Call(operator.position, operator.text, (tree, self._binary(level + 1)))
        return tree

    def _unary(self) -> Tree:
        sign = self._take("!", "-")
        if not sign:
            return self._member()
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise BadExpression(f"got a nesting deeper than {MAX_DEPTH}", self._text, sign.position)
        operand = self._unary()
        self._depth -= 1
        if sign.text == "-" and isinstance(operand, Literal) and type(operand.value) in (int, float):
            return Literal(sign.position, -operand.value)  # type: ignore[operator]
        return Call(sign.position, sign.text, (operand,))

    def _member(self) -> Tree:
        tree = self._primary()
        while sign := self._take(".", "["):
            if sign.text == "[":
                tree = Call(sign.position, INDEX, (tree, self._condition()))
                self._expect("]")
                continue
            name = self._name()
            if self._take("("):
                tree = Call(sign.position, name, (tree, *self._arguments(")")), is_method=True)
            else:
                tree = Select(sign.position, tree, name)
        return tree

    def _name(self) -> str:
        if self._token.kind != "name":
            raise self._unexpected("a name")
        self._next += 1
        return self._tokens[self._next - 1].text

    def _arguments(self, closing: str) -> tuple[Tree, ...]:
        arguments = list[Tree]()
        if self._take(closing):
            return ()
        while True:
            arguments.append(self._condition())
            if self._take(closing):
                return tuple(arguments)
            if not self._take(","):
                raise self._unexpected(f"',' or {closing!r}")

    def _primary(self) -> Tree:
        token = self._token
        if self._take("("):
            tree = self._condition()
            self._expect(")")
            return tree
        if self._take("["):
            return Items(token.position, self._arguments("]"))
        if token.kind == "name" and token.text not in _RESERVED:
            self._next += 1
            if self._take("("):
                return Call(token.position, token.text, self._arguments(")"))
            return Name(token.position, token.text)
        return Literal(token.position, self._literal())

    def _literal(self) -> bool | int | float | str:
        token = self._token
        if token.kind == "string":
            return self._string()
        if token.kind == "raw":
            self._next += 1
            return token.text[2:-1]
        if token.kind not in ("float", "int") and token.text not in _CONSTANTS:
            raise self._unexpected("a value")
        self._next += 1
        if token.kind == "int":
            return self._int(token)
        return float(token.text) if token.kind == "float" else _CONSTANTS[token.text]

    def _int(self, token: _Token) -> int:
        if len(token.text) > 20 or (value := int(token.text, 0 if token.text.startswith("0x") else 10)) > MAX_INT:
            raise BadExpression(f"got {token.text[:24]}, allowed integers up to {MAX_INT}", self._text, token.position)
        return value

    def _string(self) -> str:
        token = self._token
        self._next += 1

        def unescaped(match: re.Match[str]) -> str:
            code = match[1]
            if len(code) > 1:
                return chr(int(code[1:], 16))
            if code not in _ESCAPED:
                at = token.position + 1 + match.start()
                raise BadExpression(rf"got \{code}, allowed \n \t \r \\ \" \' \xHH \uHHHH", self._text, at)
            return _ESCAPED[code]

        text = _ESCAPE.sub(unescaped, token.text[1:-1])
        if any("\ud800" <= character <= "\udfff" for character in text):
            raise BadExpression("got half of a surrogate pair, allowed is text", self._text, token.position)
        return text
