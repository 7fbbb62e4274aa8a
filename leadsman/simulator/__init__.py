"""Policies compared on a cluster that does not exist: the real decisions, a virtual clock, a seeded chance."""
