"""Follows the cluster's telemetry policies. An invalid one is refused, and its last good version stays in use."""

import logging
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Self

import msgspec
from msgspec import Struct, structs

from leadsman.decision.inputs import RefusedPolicy, TasPolicies
from leadsman.decision.telemetry.taspolicy import (
    TASPOLICY_GROUP,
    TASPOLICY_PLURAL,
    TASPOLICY_VERSION,
    PolicyKey,
    TasPolicy,
)
from leadsman.decision.telemetry.taspolicy_document import (
    MAX_SPEC_BYTES,
    BadTasPolicy,
    check_spec_size,
    parse_taspolicy,
)
from leadsman.kube.client import ApiClient
from leadsman.kube.listing import ListOptions
from leadsman.kube.object_changes import ChangeType, ObjectChange
from leadsman.kube.objects import ObjectIdentity
from leadsman.kube.reflector import Reflector
from leadsman.kube.resources import Resource

TASPOLICY_RESOURCE = Resource(f"{TASPOLICY_GROUP}/{TASPOLICY_VERSION}", TASPOLICY_PLURAL)

MAX_PAUSE_SECONDS = 5.0
"""There are few extenders, and a policy must not wait long after the API server is back or the CRD installed."""

log = logging.getLogger(__name__)


class TasPolicyMetadata(ObjectIdentity, frozen=True, rename="camel"):
    """The metadata of a TASPolicy, with its generation."""

    generation: int = 0


class BoundedJson:
    """A spec or a status, up to MAX_SPEC_BYTES: a policy may have 1.5 MiB, which is ten times as much in objects.

    value: None when it is larger. size_bytes: in JSON.
    """

    def __init__(self, value: object = None, size_bytes: int = 0) -> None:
        self.value, self.size_bytes = value, size_bytes

    @classmethod
    def reduced(cls, value: object) -> Self:
        """Of a JSON value (`leadsman.kube.decoding`)."""
        size_bytes = len(msgspec.json.encode(value))
        return cls(value if size_bytes <= MAX_SPEC_BYTES else None, size_bytes)


class TasPolicyObject(Struct, frozen=True):
    """A TASPolicy as the API server sends it. status: what PolicyStatusWriter compares with."""

    metadata: TasPolicyMetadata
    spec: BoundedJson = BoundedJson()
    status: BoundedJson = BoundedJson()

    @property
    def key(self) -> PolicyKey:
        return PolicyKey(self.metadata.namespace, self.metadata.name)


class TasPolicyFollower:
    """Keeps the telemetry policies up to date. `run` it as one task.

    current: the policies; replaced and never altered.
    objects: the API server's objects.
    on_change: called after every change.
    """

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
        """Follows until cancelled."""
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
    policy = change.object
    refused_before = refused.pop(policy.key, None)
    if change.kind is ChangeType.DELETED:
        used.pop(policy.key, None)
        return
    try:
        used[policy.key] = parse_taspolicy(to_document(policy))
    except BadTasPolicy as error:
        refused[policy.key] = RefusedPolicy(error.problem, policy.metadata.generation)
        if refused[policy.key] != refused_before:
            meanwhile = "its last good version stays in use" if policy.key in used else "it has no effect"
            generation = policy.metadata.generation
            log.error("TASPolicy %s (generation %d) is invalid, %s: %s", policy.key, generation, meanwhile, error)


def to_document(policy: TasPolicyObject) -> Mapping[str, Any]:
    """The policy in the form that `parse_taspolicy` takes. BadTasPolicy when its spec is too large."""
    check_spec_size(policy.spec.size_bytes)
    meta = policy.metadata
    metadata = {"name": meta.name, "namespace": meta.namespace, "generation": meta.generation}
    return {"metadata": metadata, "spec": policy.spec.value}
