"""Judges delay bounds: what a pod asks, to which nodes, which pair of nodes decides, and what follows. Pure.

    bounds        a pod's labels and annotation → DelayBound, and the nodes that it is to
    rtt_table     how a pair of nodes may stand to a bound; one reference node → its round trip to every other:
                  measured by agents or others, else estimated
    evaluation    a bound and its target → the pair that decides for every node: the one value

The rest are projections of that value: `delay_plugins`, `probe_pairs`, `explain_delay`.
"""
