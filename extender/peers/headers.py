"""Headers of what replicas say to each other and to the command line."""

SECONDS_AGO = "Leadsman-Decided-Seconds-Ago"
"""Of /explain: by which the newest of several replicas' is chosen."""

PARTIAL = "Leadsman-Partial"
"""Of /explain and /decisions: the replicas that did not answer, and why; absent when all did."""
