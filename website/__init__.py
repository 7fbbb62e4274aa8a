"""The documentation site: mkdocs' settings, and the pages that are made from the code. `make site` builds it."""
