"""Holds this release's version; `importlib.metadata` and zipfile would take 1 MB of each agent's memory to tell it."""

VERSION = "0.2.0"
"""setup.cfg reads it from here; `make release` sets it."""
