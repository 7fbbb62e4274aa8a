"""Replaces macros over lists by what they stand for, so that what is left reads fields by keys that are known. Pure.

    ["gpu", "npu"].exists(k, k in node.labels)   →   "gpu" in node.labels || "npu" in node.labels

A list is written out in the expression, so its length is known, and with it what the expression costs: MAX_COST.
An element or a condition that is unknown makes the whole unknown where CEL has an error: `x == x` is true, or unknown
as x is.
"""

import re
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from leadsman.decision.cel.syntax import INDEX, BadExpression, Call, Items, Literal, Name, Select, Tree

MAX_COST = 512
"""Operations of an expression whose macros are expanded: some 50 µs for a node."""

MACROS = frozenset({"exists", "all", "exists_one", "map", "filter"})

_TRUE, _FALSE = True, False

Variables = Mapping[str, Tree]


def expand(tree: Tree, text: str) -> Tree:
    """The tree without macros. text: what it was read from. BadExpression."""
    return _Expansion(text).expand(tree, {})


class _Element(Struct, frozen=True):
    """condition: None: it is in the list in any case."""

    value: Tree
    condition: Tree | None = None


class _List(Struct, frozen=True):
    """required: true, or unknown where CEL has an error in place of the list."""

    elements: tuple[_Element, ...]
    required: tuple[Tree, ...] = ()


class _Expansion:
    def __init__(self, text: str) -> None:
        self._text, self._visits = text, 0
        self._costs: dict[int, tuple[Tree, int]] = {}

    def expand(self, tree: Tree, variables: Variables) -> Tree:
        self._visits += 1
        if self._visits > MAX_COST:
            raise self._too_much(tree.position)
        match tree:
            case Literal():
                return tree
            case Name():
                return variables.get(tree.name, tree)
            case Select():
                return Select(tree.position, self.expand(tree.operand, variables), tree.field)
            case Items():
                return Items(tree.position, tuple(self.expand(item, variables) for item in tree.items))
            case Call():
                return self._call(tree, variables)

    def _bounded(self, macro: Call, tree: Tree) -> Tree:
        if self._cost(tree) > MAX_COST:
            raise self._too_much(macro.position)
        return tree

    def _too_much(self, position: int) -> BadExpression:
        what = f"got more than {MAX_COST} operations when macros are expanded; write a shorter list"
        return BadExpression(what, self._text, position)

    def _cost(self, tree: Tree) -> int:
        """Operations of the tree. Parts of it may be the same object, so what was counted is remembered."""
        if id(tree) not in self._costs:
            parts = tree.arguments if isinstance(tree, Call) else ()
            self._costs[id(tree)] = tree, 1 + sum(map(self._cost, parts))
        return self._costs[id(tree)][1]

    def _index(self, tree: Call, variables: Variables) -> Select:
        """Only with a key that is known, so that what an expression reads is known when it is loaded."""
        operand, key = (self.expand(argument, variables) for argument in tree.arguments)
        if not isinstance(key, Literal) or not isinstance(key.value, str):
            position = _start(tree.arguments[1])
            got = re.match(r"\w+|.?", self._text[position:], re.DOTALL)
            shown = repr(got[0]) if got else "the end"
            what = f'got {shown}, allowed a key as text, as in node.labels["zone"], or a macro\'s variable that is one'
            raise BadExpression(what, self._text, position)
        return Select(tree.position, operand, key.value, is_index=True)

    def _call(self, tree: Call, variables: Variables) -> Tree:
        if tree.name == INDEX:
            return self._index(tree, variables)
        if tree.name == "bind" and tree.is_method and tree.arguments[0] == Name(tree.arguments[0].position, "cel"):
            return self._bounded(tree, self._bind(tree, variables))
        if tree.name in MACROS and tree.is_method:
            return self._bounded(tree, self._macro(tree, variables))
        if tree.name == "size" and len(tree.arguments) == 1 and _is_list(tree.arguments[0]):
            return self._bounded(tree, self._size(tree, self._list(tree.arguments[0], variables)))
        if tree.name == "in" and _is_list(tree.arguments[1]) and not _is_literal_list(tree.arguments[1]):
            return self._bounded(tree, self._in(tree, self._list(tree.arguments[1], variables), variables))
        arguments = tuple(self.expand(argument, variables) for argument in tree.arguments)
        return _text_of_sum(tree, arguments) or Call(tree.position, tree.name, arguments, tree.is_method)

    def _bind(self, tree: Call, variables: Variables) -> Tree:
        """`cel.bind(x, node.labels, x.zone)`"""
        _, *given = tree.arguments
        if len(given) != 3 or not isinstance(given[0], Name):
            what = "bind() takes a variable, its value and an expression of it, as in cel.bind(x, node.labels, x.zone)"
            raise BadExpression(what, self._text, tree.position)
        return self.expand(given[2], {**variables, given[0].name: self.expand(given[1], variables)})

    def _macro(self, tree: Call, variables: Variables) -> Tree:
        if tree.name in ("map", "filter"):
            what = f"got a list of {tree.name}(), allowed before .exists(), .all(), .exists_one(), .size() and after in"
            raise BadExpression(what, self._text, tree.position)
        elements = self._list(tree.arguments[0], variables)
        variable, body = self._variable_and_body(tree)
        held, required = list[Tree](), [*elements.required]
        for element in elements.elements:
            value = self.expand(body, {**variables, variable: element.value})
            if element.condition is not None:
                required.append(_is_known_bool(element.condition))
                joined = "&&" if tree.name != "all" else "||"
                condition = element.condition if joined == "&&" else _call("!", element.condition)
                value = _call(joined, condition, value)
            held.append(value)
        return _unless_unknown(required, _HELD[tree.name](held, tree.position), _FALSE)

    def _variable_and_body(self, tree: Call) -> tuple[str, Tree]:
        _, *given = tree.arguments
        if len(given) != 2 or not isinstance(given[0], Name):
            what = f"{tree.name}() takes a variable and an expression of it, as in [1, 2].{tree.name}(x, x > 1)"
            raise BadExpression(what, self._text, tree.position)
        return given[0].name, given[1]

    def _list(self, tree: Tree, variables: Variables) -> _List:
        """Of a list that is written out, or that map() or filter() makes of one."""
        match tree:
            case Items():
                values = [self.expand(item, variables) for item in tree.items]
                required = [_is_known(value) for value in values if not isinstance(value, Literal)]
                return _List(tuple(map(_Element, values)), tuple(required))
            case Call(name="map" | "filter", is_method=True):
                elements = self._list(tree.arguments[0], variables)
                return self._mapped(tree, elements, variables)
        what = "got no list, allowed a list that is written out, as in [1, 2], and .map() and .filter() of one"
        raise BadExpression(what, self._text, _start(tree))

    def _mapped(self, tree: Call, elements: _List, variables: Variables) -> _List:
        variable, body = self._variable_and_body(tree)
        made, required = list[_Element](), [*elements.required]
        for element in elements.elements:
            value = self.expand(body, {**variables, variable: element.value})
            is_known = _is_known(value) if tree.name == "map" else _is_known_bool(value)
            if element.condition is not None:
                is_known = _call("||", _call("!", element.condition), is_known)
            required.append(is_known)
            if tree.name == "map":
                made.append(_Element(value, element.condition))
            else:
                both = value if element.condition is None else _call("&&", element.condition, value)
                made.append(_Element(element.value, both))
        return _List(tuple(made), tuple(required))

    def _size(self, tree: Call, elements: _List) -> Tree:
        counts = [_number(each.condition, 1, 0, tree.position) for each in elements.elements]
        return _unless_unknown(elements.required, _joined("+", counts, 0, tree.position), 0)

    def _in(self, tree: Call, elements: _List, variables: Variables) -> Tree:
        operand = self.expand(tree.arguments[0], variables)
        equal = list[Tree]()
        for element in elements.elements:
            is_equal = Call(tree.position, "==", (operand, element.value))
            equal.append(is_equal if element.condition is None else _call("&&", element.condition, is_equal))
        required = [*elements.required, _is_known(operand)]
        return _unless_unknown(required, _joined("||", equal, _FALSE, tree.position), _FALSE)


def _start(tree: Tree) -> int:
    """Where it begins: the position of `a.b` is its dot."""
    parts = tree.arguments if isinstance(tree, Call) else (tree.operand,) if isinstance(tree, Select) else ()
    return min([tree.position, *map(_start, parts)])


def _is_list(tree: Tree) -> bool:
    return isinstance(tree, Items) or (isinstance(tree, Call) and tree.is_method and tree.name in ("map", "filter"))


def _is_literal_list(tree: Tree) -> bool:
    return isinstance(tree, Items) and all(isinstance(item, Literal) for item in tree.items)


def _text_of_sum(tree: Call, arguments: Sequence[Tree]) -> Literal | None:
    """Of two literal texts, so that a key may be made of a macro's variable."""
    texts = [
        argument.value for argument in arguments if isinstance(argument, Literal) and isinstance(argument.value, str)
    ]
    return Literal(tree.position, "".join(texts)) if tree.name == "+" and len(texts) == 2 else None


def _call(name: str, *arguments: Tree) -> Call:
    return Call(arguments[0].position, name, arguments)


def _is_known(value: Tree) -> Tree:
    return _call("==", value, value)


def _is_known_bool(value: Tree) -> Tree:
    return _call("||", value, _call("!", value))


def _number(condition: Tree | None, one: float, none: float, position: int) -> Tree:
    if condition is None:
        return Literal(position, one)
    return Call(position, "?:", (condition, Literal(position, one), Literal(position, none)))


def _joined(name: str, trees: Sequence[Tree], empty: bool | float, position: int) -> Tree:
    """All of them joined, in halves, so that the tree is not deep."""
    if not trees:
        return Literal(position, empty)
    if len(trees) == 1:
        return trees[0]
    half = len(trees) // 2
    parts = (_joined(name, trees[:half], empty, position), _joined(name, trees[half:], empty, position))
    return Call(position, name, parts)


def _exactly_one(held: Sequence[Tree], position: int) -> Tree:
    """Counted as doubles, which may be joined where ints may not."""
    counts = [_number(each, 1.0, 0.0, position) for each in held]
    return Call(position, "==", (_joined("+", counts, 0.0, position), Literal(position, 1.0)))


def _unless_unknown(required: Sequence[Tree], result: Tree, never: bool | int) -> Tree:
    """never: what stands where a result of its type must, and is not reached."""
    if not required:
        return result
    known = _joined("&&", required, _TRUE, result.position)
    return Call(result.position, "?:", (known, result, Literal(result.position, never)))


_HELD: Mapping[str, Callable[[Sequence[Tree], int], Tree]] = {
    "exists": lambda held, position: _joined("||", [Literal(position, _FALSE), *held], _FALSE, position),
    "all": lambda held, position: _joined("&&", [Literal(position, _TRUE), *held], _TRUE, position),
    "exists_one": _exactly_one,
}
