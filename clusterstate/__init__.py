"""The contract between those who measure and those who decide.

Here live the records, the keys they stand under, their bytes, the store that remembers them and the
snapshot that readers decide on. Nothing here knows how a value was measured or what it is used for.
`records`, `keys`, `codec`, `timing`, `snapshot` and `gateway` are pure; `transport`, `etcd`, `memory` and
`follower` do I/O.
"""
