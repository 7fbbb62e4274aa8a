"""Builds the documentation site from mkdocs' settings and pages that are made from the code: `make site`."""
