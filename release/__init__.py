"""Makes a release of this checkout: its version, its notes and its tag.

It is no part of what is installed.
"""
