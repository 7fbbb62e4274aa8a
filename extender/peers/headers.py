"""Headers of what replicas say to each other and to the command line."""

NAME = "Leadsman-Name"
"""Of an answer to a peer: the name of the process that gives it."""

SECONDS_AGO = "Leadsman-Decided-Seconds-Ago"
"""Of /explain: by which the newest of several replicas' is chosen."""

PARTIAL = "Leadsman-Partial"
"""Of /explain and /decisions: the replicas that did not answer, and why; absent when all did."""
