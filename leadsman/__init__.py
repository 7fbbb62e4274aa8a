"""What agent, extender and controller share, and the command line.

    state, kube, network, runtime   know no policy: records, API server, estimates, process plumbing
    rewards                         what evidence about a node is worth
    decision, planning              PURE: one pod → Decision; many pods and nodes → Plan
    sources                         follows everything that decisions are made on
    simulator, testbed, cli         clusters that do not exist, clusters on one machine, the commands

Imports point up this list only; `make check` holds them to it. Importing this package imports nothing.
"""
