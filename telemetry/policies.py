"""The cluster's telemetry policies, by list and watch. A bad one is refused, and its last good version stays."""

import logging
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from msgspec import Struct, structs

from apiserver.changes import Change, Kind
from apiserver.listing import Wanted
from apiserver.objects import Metadata
from apiserver.requests import Client
from apiserver.resources import Resource
from apiserver.watching import Reflector
from decision.telemetry.document import BadPolicy, parse
from decision.telemetry.known import Policies, Refused
from decision.telemetry.policy import GROUP, PLURAL, VERSION, PolicyKey, TasPolicy

TASPOLICIES = Resource(f"{GROUP}/{VERSION}", PLURAL)

LONGEST_PAUSE_SECONDS = 5.0
"""There are few extenders, and a policy must not wait long after the API server is back or the CRD installed."""

log = logging.getLogger(__name__)


class PolicyMetadata(Metadata, frozen=True, rename="camel"):
    generation: int = 0


class PolicyObject(Struct, frozen=True):
    """A TASPolicy as it came. status: for who writes it, to see whether it must."""

    metadata: PolicyMetadata
    spec: Any = None
    status: Any = None

    @property
    def key(self) -> PolicyKey:
        return PolicyKey(self.metadata.namespace, self.metadata.name)


class PolicyFollower:
    """`run` it as one task; readers take `current`, replaced and never altered. on_change: called when one changed."""

    def __init__(self, client: Client, on_change: Callable[[], None] = lambda: None) -> None:
        self._policies, self._on_change = Policies(), on_change
        self.reflector = Reflector(
            client,
            Wanted(TASPOLICIES),
            PolicyObject,
            on_changes=self._changed,
            longest_pause_seconds=LONGEST_PAUSE_SECONDS,
        )

    @property
    def current(self) -> Policies:
        if not self._policies.loaded and self.reflector.loaded.is_set():
            self._policies = structs.replace(self._policies, loaded=True)
        return self._policies

    @property
    def objects(self) -> Mapping[tuple[str, str], PolicyObject]:
        return self.reflector.current

    async def run(self) -> None:
        """For ever."""
        await self.reflector.run()

    def _changed(self, changes: Sequence[Change[PolicyObject]]) -> None:
        used, refused = dict(self._policies.used), dict(self._policies.refused)
        for change in changes:
            _apply(change, used, refused)
        loaded = self._policies.loaded
        self._policies = Policies(MappingProxyType(used), MappingProxyType(refused), loaded)
        self._on_change()


def _apply(change: Change[PolicyObject], used: dict[PolicyKey, TasPolicy], refused: dict[PolicyKey, Refused]) -> None:
    found = change.object
    before = refused.pop(found.key, None)
    if change.kind is Kind.DELETED:
        used.pop(found.key, None)
        return
    try:
        used[found.key] = parse(plain(found))
    except BadPolicy as error:
        refused[found.key] = Refused(error.problem, found.metadata.generation)
        if refused[found.key] != before:
            log.error("policy %s is refused, its last good version stays: %s", found.key, error)


def plain(found: PolicyObject) -> Mapping[str, Any]:
    """As `parse` takes it."""
    metadata = found.metadata
    named = {"name": metadata.name, "namespace": metadata.namespace, "generation": metadata.generation}
    return {"metadata": named, "spec": found.spec}
