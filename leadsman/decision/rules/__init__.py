"""Filters and scores that an operator writes as expressions in the policy file (docs/rules.md).

The values of an expression for all nodes at once (`rule_values`), and the two plugins made of it (`rule_plugins`).
"""
