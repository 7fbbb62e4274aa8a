"""Judges delay bounds: what a pod asks, to which nodes, which pair of nodes decides, and what follows. Pure.

    bounds        a pod's labels and annotation → DelayBound
    targets       a bound → the nodes that it is to
    views         what is known besides the agents' reports: other measurements, estimates
    rtt_table     one reference node → its round trip to every other: measured, else estimated
    outcomes      how a pair of nodes may stand to a bound, and the reason of each refusal
    evaluation    a bound and its target → the pair that decides for every node: the one value

The rest are projections of that value: `delay_plugins`, `probe_pairs`, `explain_delay`.
"""
