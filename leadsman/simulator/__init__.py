"""Simulated clusters: the real decisions and peering code, a virtual clock, seeded randomness."""
