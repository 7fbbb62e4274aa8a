"""The Common Expression Language (github.com/google/cel-spec), as far as rules and devices need it.

`syntax` reads text into a tree, `macros` expands macros over lists, `checker` finds types, reads and scopes, `program`
splits what is checked into parts that depend on a node alone or on the pod alone, and joins their values over arrays.
`selector` evaluates what has no types beforehand: the selectors of devices. `functions` has what can be called,
`pattern` the regular expressions, `semver` the versions. What a node, a pod or a device is, nothing here knows:
`leadsman.decision.rule_schema` and `leadsman.sources.cluster.device_objects` name their fields. docs/decisions/0052
says why this is no library.
"""
