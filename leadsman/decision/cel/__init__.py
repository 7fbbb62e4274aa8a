"""The Common Expression Language (github.com/google/cel-spec), as far as rules need it: text in, a program out.

`syntax` reads text into a tree, `macros` expands macros over lists, `checker` finds types, reads and scopes, `program`
splits what is checked into parts that depend on a node alone or on the pod alone, and joins their values over arrays.
`functions` has what can be called, `pattern` the regular expressions. What a node or a pod is, nothing here knows:
`leadsman.decision.rule_schema` names their fields. docs/decisions/0052 says why this is no library.
"""
