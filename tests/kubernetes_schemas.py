"""Checks objects by the schemas of a release of Kubernetes."""

from functools import cache
from typing import Any


def validate(found: Any, version: str) -> None:
    """Raises kubernetes_validate.ValidationError for an object that the release would not take as it is."""
    _validator().validate(found, version, strict=True)


@cache
def _validator() -> Any:
    # Its import takes two seconds, and every worker collects all tests. It reads a schema again for every object.
    from kubernetes_validate import utils

    utils.schema_contents = cache(utils.schema_contents)
    return utils
