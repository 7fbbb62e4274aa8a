"""Writes what `kubectl get taspolicies` shows, where it differs from what stands; an Event tells of a refused policy.

What a status says is decided in `leadsman.decision.telemetry.policy_status`.
"""

import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from controller.event_recorder import EventRecorder
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.telemetry.policy_status import build_status
from leadsman.decision.telemetry.readings import reporting_nodes
from leadsman.decision.telemetry.taspolicy import (
    TASPOLICY_GROUP,
    TASPOLICY_KIND,
    TASPOLICY_VERSION,
    PolicyKey,
    TasPolicy,
)
from leadsman.kube.client import ApiClient
from leadsman.kube.errors import ApiError, NotFound
from leadsman.kube.objects import ObjectReference
from leadsman.sources.telemetry.tas_policies import TASPOLICY_RESOURCE, TasPolicyObject

_log = logging.getLogger(__name__)

REWRITE_INTERVAL_SECONDS = 60.0
"""A status that does not stay as written (another CRD prunes it, or another controller writes it) is not fought for."""

PolicyObjects = Mapping[tuple[str, str], TasPolicyObject]


class PolicyStatusWriter:
    """Call `round` in turn. clock: monotonic seconds. For metrics: written."""

    def __init__(
        self,
        client: ApiClient,
        recorder: EventRecorder,
        clock: Callable[[], float],
        wall_clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ):
        self.written = 0
        self._client, self._recorder, self._clock, self._wall_clock = client, recorder, clock, wall_clock
        self._written_at: dict[PolicyKey, tuple[str, float]] = {}

    async def sync(self, objects: PolicyObjects, inputs: DecisionInputs) -> None:
        """One after the other: there are few policies."""
        self._written_at = {each.key: at for each in objects.values() if (at := self._written_at.get(each.key))}
        for found in objects.values():
            wanted = self._changed_status(found, inputs)
            if wanted is not None:
                await self._update(found, wanted)

    def _changed_status(self, found: TasPolicyObject, inputs: DecisionInputs) -> dict[str, Any] | None:
        """None when it stands there so, or nothing is known of the policy yet."""
        policies = inputs.telemetry.policies
        used, refused = policies.used.get(found.key), policies.refused.get(found.key)
        if used is None and refused is None:
            return None
        before = found.status if isinstance(found.status, Mapping) else {}
        made = build_status(
            used, refused, before, f"{self._wall_clock():%Y-%m-%dT%H:%M:%SZ}", _unreported_metrics(used, inputs)
        )
        # What is empty need not stand there.
        same = all(before.get(key, None if value else value) == value for key, value in made.items())
        return None if same else made

    async def _update(self, found: TasPolicyObject, wanted: dict[str, Any]) -> None:
        accepted = wanted["conditions"][0]
        tried, at = self._written_at.get(found.key, ("", 0.0))
        told = f"{accepted['status']} {accepted['message']} {wanted['conditions'][1]['message']}"
        if tried == told and self._clock() - at < REWRITE_INTERVAL_SECONDS:
            return
        self._written_at[found.key] = told, self._clock()
        if await self._patch(found, wanted) and accepted["status"] == "False" and tried != told:
            about = ObjectReference(TASPOLICY_KIND, found.metadata.namespace, found.metadata.name, found.metadata.uid)
            api = f"{TASPOLICY_GROUP}/{TASPOLICY_VERSION}"
            self._recorder.record(about, "PolicyRefused", accepted["message"], "Accept", warning=True, api_version=api)

    async def _patch(self, found: TasPolicyObject, wanted: dict[str, Any]) -> bool:
        path = TASPOLICY_RESOURCE.path(found.metadata.namespace, found.metadata.name, "status")
        try:
            await self._client.patch(path, {"status": wanted})
        except NotFound:
            return False
        except ApiError as error:
            _log.warning("status of policy %s cannot be written: %s: %s", found.key, type(error).__name__, error)
            return False
        self.written += 1
        return True


def _unreported_metrics(used: TasPolicy | None, inputs: DecisionInputs) -> list[str]:
    return sorted(metric for metric in used.metrics if not reporting_nodes(metric, inputs)) if used else []
