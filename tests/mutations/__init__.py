"""Mutation rows: each defence is switched off by one replacement of text, in a copy, and a named test must turn red.

    python -m tests.mutations                  all, two at a time; prints the table, exits 1 when one stays green
    python -m tests.mutations --only FILE      those of one file

A new defence adds a row to its subject in `rows/`; `table` says how one reads.
A test of the normal run finds each text exactly once.
"""
