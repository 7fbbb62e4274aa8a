"""Regular expressions for `matches()`, by RE2: the library that CEL names, linear in the text. Pure."""

MAX_BYTES = 1 << 20
"""Of a compiled pattern with what it keeps of texts. RE2 refuses a pattern that would need more."""


class BadPattern(ValueError):
    """The pattern cannot be used: RE2's words."""


class Pattern:
    """Compiles a pattern of RE2's syntax (github.com/google/re2/wiki/Syntax). BadPattern."""

    def __init__(self, pattern: str) -> None:
        import re2  # Here: it takes 1.4 MB, and most policies have no pattern.

        options = re2.Options()
        options.max_mem, options.log_errors = MAX_BYTES, False
        try:
            self._compiled = re2.compile(pattern, options)
        except re2.error as error:
            raise BadPattern(error.args[0].decode(errors="replace")) from error
        except UnicodeEncodeError as error:
            raise BadPattern(str(error)) from error

    def matches(self, text: str) -> bool:
        """Whether it is found anywhere in the text."""
        return self._compiled.search(text) is not None
