"""This release's version, not asked of `importlib.metadata`: that and zipfile take 1 MB of each agent's memory."""

VERSION = "0.1.0"
"""As in setup.cfg; `make release` sets both."""
