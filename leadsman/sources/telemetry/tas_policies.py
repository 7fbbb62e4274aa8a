"""The cluster's telemetry policies, by list and watch. A bad one is refused, and its last good version stays."""

import logging
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from msgspec import Struct, structs

from leadsman.decision.telemetry.model import RefusedPolicy, TasPolicies
from leadsman.decision.telemetry.taspolicy import (
    TASPOLICY_GROUP,
    TASPOLICY_PLURAL,
    TASPOLICY_VERSION,
    PolicyKey,
    TasPolicy,
)
from leadsman.decision.telemetry.taspolicy_document import BadTasPolicy, parse_taspolicy
from leadsman.kube.client import ApiClient
from leadsman.kube.listing import ListOptions
from leadsman.kube.object_changes import ChangeType, ObjectChange
from leadsman.kube.objects import ObjectMeta
from leadsman.kube.reflector import Reflector
from leadsman.kube.resources import Resource

TASPOLICY_RESOURCE = Resource(f"{TASPOLICY_GROUP}/{TASPOLICY_VERSION}", TASPOLICY_PLURAL)

MAX_PAUSE_SECONDS = 5.0
"""There are few extenders, and a policy must not wait long after the API server is back or the CRD installed."""

log = logging.getLogger(__name__)


class TasPolicyMetadata(ObjectMeta, frozen=True, rename="camel"):
    generation: int = 0


class TasPolicyObject(Struct, frozen=True):
    """A TASPolicy as it came. status: for who writes it, to see whether it must."""

    metadata: TasPolicyMetadata
    spec: Any = None
    status: Any = None

    @property
    def key(self) -> PolicyKey:
        return PolicyKey(self.metadata.namespace, self.metadata.name)


class TasPolicyFollower:
    """`run` it as one task; readers take `current`, replaced and never altered. on_change: called when one changed."""

    def __init__(self, client: ApiClient, on_change: Callable[[], None] = lambda: None) -> None:
        self._policies, self._on_change = TasPolicies(), on_change
        self.reflector = Reflector(
            client,
            ListOptions(TASPOLICY_RESOURCE),
            TasPolicyObject,
            on_changes=self._changed,
            longest_pause_seconds=MAX_PAUSE_SECONDS,
        )

    @property
    def current(self) -> TasPolicies:
        if not self._policies.loaded and self.reflector.loaded.is_set():
            self._policies = structs.replace(self._policies, loaded=True)
        return self._policies

    @property
    def objects(self) -> Mapping[tuple[str, str], TasPolicyObject]:
        return self.reflector.current

    async def run(self) -> None:
        """For ever."""
        await self.reflector.run()

    def _changed(self, changes: Sequence[ObjectChange[TasPolicyObject]]) -> None:
        used, refused = dict(self._policies.used), dict(self._policies.refused)
        for change in changes:
            _apply(change, used, refused)
        loaded = self._policies.loaded
        self._policies = TasPolicies(MappingProxyType(used), MappingProxyType(refused), loaded)
        self._on_change()


def _apply(
    change: ObjectChange[TasPolicyObject], used: dict[PolicyKey, TasPolicy], refused: dict[PolicyKey, RefusedPolicy]
) -> None:
    found = change.object
    before = refused.pop(found.key, None)
    if change.kind is ChangeType.DELETED:
        used.pop(found.key, None)
        return
    try:
        used[found.key] = parse_taspolicy(to_document(found))
    except BadTasPolicy as error:
        refused[found.key] = RefusedPolicy(error.problem, found.metadata.generation)
        if refused[found.key] != before:
            log.error("policy %s is refused, its last good version stays: %s", found.key, error)


def to_document(found: TasPolicyObject) -> Mapping[str, Any]:
    """As `parse` takes it."""
    metadata = found.metadata
    named = {"name": metadata.name, "namespace": metadata.namespace, "generation": metadata.generation}
    return {"metadata": named, "spec": found.spec}
