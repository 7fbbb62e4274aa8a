"""Regular expressions whose cost is linear in the text, for `matches()`. Pure.

Syntax and meaning are RE2's (github.com/google/re2/wiki/Syntax), which CEL names, as far as they go: characters, `.`,
classes, \\d \\w \\s and their opposites, groups, `|`, `* + ? {m,n}`, `^` and `$`. What is not there is refused.
All states of a pattern are followed at once (Thompson 1968); sets of states that were met are kept, so a text costs
one look-up a character.
"""

import re
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

MAX_STATES = 256
MAX_REPEATS = 64
MAX_GROUPS = 16
"""Within each other."""

MAX_KEPT = 2_048
"""Look-ups of a pattern that are kept."""


class BadPattern(ValueError):
    """The pattern cannot be used: what is there, and what is allowed.

    offset: characters before it.
    """

    def __init__(self, what: str, offset: int) -> None:
        self.offset = offset
        super().__init__(what)


class CharacterClass(Struct, frozen=True):
    """ranges: first and last character of each."""

    ranges: tuple[tuple[str, str], ...]
    is_negated: bool = False

    def __contains__(self, character: str) -> bool:
        return any(first <= character <= last for first, last in self.ranges) is not self.is_negated


class _Take(Struct, frozen=True):
    """Goes on to `then` with a character of the class."""

    characters: CharacterClass
    then: int


class _Fork(Struct):
    """Goes on to all of these, without a character."""

    then: list[int]


class _Assert(Struct, frozen=True):
    """Goes on to `then` at the start of the text, or at its end."""

    at_end: bool
    then: int


_State = _Take | _Fork | _Assert | None
"""None: the pattern matches."""

_Emit = Callable[[int], int]
"""Adds the states of a piece of the pattern that goes on to a state; its first one."""

_DIGITS = (("0", "9"),)
_WORD = (("0", "9"), ("A", "Z"), ("_", "_"), ("a", "z"))
_SPACE = (("\t", "\n"), ("\f", "\r"), (" ", " "))
_CLASSES = {"d": _DIGITS, "w": _WORD, "s": _SPACE}
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "a": "\a"}
_ANY = CharacterClass((("\n", "\n"),), is_negated=True)

_REPEAT = re.compile(r"\{(\d{1,4})(,(\d{1,4})?)?\}", re.ASCII)
_COUNTS: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}

ALLOWED = "characters, . [a-z] [^a-z] \\d \\w \\s ( ) | * + ? {m,n} ^ $, and \\ before a sign"


class Pattern:
    """A compiled pattern. BadPattern."""

    def __init__(self, text: str) -> None:
        self._states: list[_State] = [None]
        self._first = _Parser(text, self._states).whole()(0)
        self._kept = 0
        self._start = self._set(frozenset({self._first}), at_start=True)

    def matches(self, text: str) -> bool:
        """Whether some part of the text matches."""
        current = self._start
        for character in text:
            if current.matches:
                return True
            following = current.following.get(character)
            current = following or self._follow(current, character)
        return current.matches_at_end

    def _follow(self, current: "_StateSet", character: str) -> "_StateSet":
        taken = {take.then for take in current.takes if character in take.characters}
        following = self._set(frozenset({*taken, self._first}), at_start=False)
        if self._kept < MAX_KEPT:
            self._kept += 1
            current.following[character] = following
        return following

    def _set(self, states: frozenset[int], *, at_start: bool) -> "_StateSet":
        reached = self._reached(states, at_start=at_start, at_end=False)
        at_end = self._reached(states, at_start=at_start, at_end=True)
        takes = [state for state in map(self._states.__getitem__, reached) if isinstance(state, _Take)]
        return _StateSet(takes, 0 in reached, 0 in at_end)

    def _reached(self, states: Iterable[int], *, at_start: bool, at_end: bool) -> set[int]:
        """These and all that follow without a character."""
        reached, left = set[int](), list(states)
        while left:
            number = left.pop()
            if number in reached:
                continue
            reached.add(number)
            match self._states[number]:
                case _Fork(then):
                    left.extend(then)
                case _Assert(is_end, follows) if at_end if is_end else at_start:
                    left.append(follows)
        return reached


class _StateSet(Struct, eq=False):
    """All states in which a text may be. matches: whatever follows. following: of characters that were met."""

    takes: Sequence[_Take]
    matches: bool
    matches_at_end: bool
    following: dict[str, "_StateSet"] = {}


class _Parser:
    def __init__(self, text: str, states: list[_State]) -> None:
        self._text, self._states = text, states
        self._next = self._groups = 0

    def whole(self) -> _Emit:
        emit = self._alternatives()
        if self._next < len(self._text):
            raise self._bad("got ) without (")
        return emit

    def _bad(self, what: str) -> BadPattern:
        return BadPattern(f"{what}, allowed {ALLOWED}", self._next)

    def _peek(self) -> str:
        return self._text[self._next : self._next + 1]

    def _take(self) -> str:
        if self._next == len(self._text):
            raise self._bad("got the end of the pattern")
        self._next += 1
        return self._text[self._next - 1]

    def _add(self, state: _State) -> int:
        if len(self._states) == MAX_STATES:
            raise BadPattern(f"got a pattern of more than {MAX_STATES} states; repeat less", self._next)
        self._states.append(state)
        return len(self._states) - 1

    def _alternatives(self) -> _Emit:
        branches = [self._sequence()]
        while self._peek() == "|":
            self._next += 1
            branches.append(self._sequence())
        if len(branches) == 1:
            return branches[0]
        return lambda then: self._add(_Fork([branch(then) for branch in branches]))

    def _sequence(self) -> _Emit:
        pieces = list[_Emit]()
        while self._peek() not in ("", "|", ")"):
            pieces.append(self._repeated())

        def emit(then: int) -> int:
            for piece in reversed(pieces):
                then = piece(then)
            return then

        return emit

    def _repeated(self) -> _Emit:
        piece = self._piece()
        counts = self._counts()
        if counts is None:
            return piece
        least, most = counts
        if self._peek() == "?":  # Lazy: which part matches is not asked.
            self._next += 1
        if self._peek() and self._peek() in "*+?{":
            raise self._bad(f"got {self._peek()} after a repetition")

        def emit(then: int) -> int:
            if most is None:
                loop = self._add(_Fork([then]))
                fork = self._states[loop]
                assert isinstance(fork, _Fork)
                fork.then.append(piece(loop))
                then = loop
            for _ in range((most or least) - least):
                then = self._add(_Fork([piece(then), then]))
            for _ in range(least):
                then = piece(self._add(_Fork([then])))  # A state each, so that repeated repetitions end at the limit.
            return then

        return emit

    def _counts(self) -> tuple[int, int | None] | None:
        """Least and most repetitions of what was read; most None: no limit. None: it is not repeated."""
        sign = self._peek()
        if sign and sign in _COUNTS:
            self._next += 1
            return _COUNTS[sign]
        if sign != "{":
            return None
        match = _REPEAT.match(self._text, self._next)
        if match is None:
            raise self._bad("got {, which begins no repetition")
        least = int(match[1])
        most = least if match[2] is None else int(match[3]) if match[3] else None
        if max(least, most or 0) > MAX_REPEATS or (most is not None and most < least):
            raise BadPattern(f"got {match[0]}, allowed repetitions up to {MAX_REPEATS}, the smaller first", self._next)
        self._next = match.end()
        return least, most

    def _piece(self) -> _Emit:
        sign = self._take()
        match sign:
            case "(":
                return self._group()
            case "^" | "$":
                return lambda then: self._add(_Assert(sign == "$", then))
            case ".":
                return self._one(_ANY)
            case "[":
                return self._one(self._class())
            case "\\":
                return self._one(self._escaped())
            case "*" | "+" | "?" | "{":
                self._next -= 1
                raise self._bad(f"got {sign} with nothing before it")
        return self._one(CharacterClass(((sign, sign),)))

    def _one(self, characters: CharacterClass) -> _Emit:
        return lambda then: self._add(_Take(characters, then))

    def _group(self) -> _Emit:
        if self._peek() == "?":
            if not self._text.startswith("?:", self._next):
                raise self._bad(f"got ({self._text[self._next : self._next + 2]}")
            self._next += 2
        self._groups += 1
        if self._groups > MAX_GROUPS:
            raise BadPattern(f"got groups deeper than {MAX_GROUPS}", self._next)
        emit = self._alternatives()
        if self._peek() != ")":
            raise self._bad("got ( without )")
        self._next += 1
        self._groups -= 1
        return emit

    def _escaped(self) -> CharacterClass:
        character = self._take()
        if character.lower() in _CLASSES:
            return CharacterClass(_CLASSES[character.lower()], is_negated=character.isupper())
        if character in _CONTROLS:
            character = _CONTROLS[character]
        elif not character.isascii() or character.isalnum() or character == "_":
            self._next -= 1
            raise self._bad(f"got \\{character}")
        return CharacterClass(((character, character),))

    def _class(self) -> CharacterClass:
        """After [."""
        is_negated = self._peek() == "^"
        self._next += is_negated
        ranges, is_first = list[tuple[str, str]](), True
        while is_first or self._peek() != "]":
            is_first = False
            ranges.extend(self._class_item())
        self._next += 1
        return CharacterClass(tuple(ranges), is_negated)

    def _class_item(self) -> Sequence[tuple[str, str]]:
        if self._text.startswith("[:", self._next):
            raise self._bad("got [: in a class")
        first = self._class_character()
        if first.is_negated:
            raise self._bad("got an opposite such as \\D in a class")
        ((character, last), *more) = first.ranges
        if more or character != last or self._peek() != "-" or self._text.startswith("-]", self._next):
            return first.ranges
        self._next += 1
        until = self._class_character()
        if len(until.ranges) > 1 or until.ranges[0][0] != until.ranges[0][1] or until.ranges[0][0] < character:
            raise self._bad("got a range that ends before it begins")
        return [(character, until.ranges[0][0])]

    def _class_character(self) -> CharacterClass:
        character = self._take()
        return self._escaped() if character == "\\" else CharacterClass(((character, character),))
