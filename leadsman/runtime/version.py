"""This release's version, not asked of `importlib.metadata`: that and zipfile take 1 MB of each agent's memory."""

VERSION = "0.2.0.dev0"
"""setup.cfg reads it from here; `make release` sets it."""
