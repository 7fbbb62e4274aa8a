"""The contract between those who measure and those who decide.

Here live the records, the keys they stand under, their bytes, the store that remembers them and the
snapshot that readers decide on. Nothing here knows how a value was measured or what it is used for.
`records`, `keys`, `key_values`, `codec`, `metric_names`, `report_timing`, `snapshot`, `reward_view` and `etcd_json` are
pure; `etcd_http`, `etcd_store`, `memory_store` and `follower` do I/O.
"""
