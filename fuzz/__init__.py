"""Fuzzing of every parser that a stranger reaches: `make fuzz`, guided by coverage (atheris).

A harness is a parser and the errors that it documents (`fuzz.harnesses`). The oracle: nothing else escapes, an error's
text can be sent as UTF-8, and no input takes more CPU time than `fuzz.oracle` allows. What a run has found stays in
tests/data/fuzz, which tests/fuzz replays. Nothing outside of tests imports this.
"""
