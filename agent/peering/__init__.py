"""Selects an agent's peers, their probe rate and its network coordinate, at a cost that does not grow with the cluster.

    store ─▶ PeerRefresher ─▶ PeerSelection ─▶ Prober ─▶ OwnCoordinate ─▶ RingEntry ─▶ store
             (reads)          (whom, how many)  (RTTs)    (where)

No agent reads the whole membership. It reads a few arcs of the ring of name hashes and a few peers' entries.
`peer_selection` is pure; `peer_refresh` and `probe_requests` use the store.
"""
