"""Fuzzing of every parser that a stranger reaches: `make fuzz`, guided by coverage (atheris).

A harness is a parser and the errors that it documents (`harnesses`). The oracle: nothing else escapes, an error's text
can be sent as UTF-8, and no input takes more CPU time than `oracle` allows. What a run has found stays in
tests/data/fuzz, which `test_corpus` replays.
"""
