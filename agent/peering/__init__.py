"""Whom an agent probes, how often, and where it stands in the network: at a cost that does not grow with the cluster.

    store ─▶ PeerRefresher ─▶ PeerSelection ─▶ Prober ─▶ OwnCoordinate ─▶ RingEntry ─▶ store
             (reads)          (whom, how many)  (RTTs)    (where)

No agent knows the membership. It reads a few arcs of the ring of name hashes and a few peers' entries, all bounded.
Everything but `peer_refresh`, `ring_reads` and `probe_requests`, which use the store, is pure.
"""
