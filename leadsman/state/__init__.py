"""The contract in etcd between agents, which measure, and the extender and the controller, which decide.

Here live the records, their keys, their bytes, the store that holds them and the snapshot that readers decide on.
Nothing here knows how a value was measured or what it is used for.
`etcd_http`, `etcd_store` and `follower` do I/O, the others are pure.
"""
