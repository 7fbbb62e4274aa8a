"""What decisions are made on, gathered: every source, followed in one way for all who decide.

Here sources are wired, started and read; what they say is their own packages' matter, what it means `decision`'s.
"""
