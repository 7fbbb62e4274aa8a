"""Checks objects by the schemas of a release of Kubernetes."""

from typing import Any


def validate(found: Any, version: str) -> None:
    """Raises kubernetes_validate.ValidationError for an object that the release would not take as it is."""
    # Its import takes two seconds, and every worker collects all tests.
    import kubernetes_validate

    kubernetes_validate.validate(found, version, strict=True)
