"""Makes a release of this checkout: its version, its notes, its tag, and the dashboards that it carries.

It is no part of what is installed.
"""
