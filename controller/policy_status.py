"""Writes the status of TASPolicies where it has changed, and an Event when a policy is refused.

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
from leadsman.kube.errors import ApiError, NotFound, NotLeader
from leadsman.kube.objects import ObjectReference
from leadsman.sources.telemetry.tas_policies import TASPOLICY_RESOURCE, TasPolicyObject

_log = logging.getLogger(__name__)

REWRITE_INTERVAL_SECONDS = 60.0
"""Between two writes of the same status: a CRD may prune it, or another controller may overwrite it."""

PolicyObjects = Mapping[tuple[str, str], TasPolicyObject]


class PolicyStatusWriter:
    """Keeps the status of all policies up to date. Call `sync` in turn.

    clock: monotonic seconds.
    wall_clock: for lastTransitionTime.
    written: statuses written so far.
    """

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
        """Writes each changed status, one after the other: there are few policies."""
        self._written_at = {each.key: at for each in objects.values() if (at := self._written_at.get(each.key))}
        for policy in objects.values():
            status = self._changed_status(policy, inputs)
            if status is not None:
                await self._update(policy, status)

    def _changed_status(self, policy: TasPolicyObject, inputs: DecisionInputs) -> dict[str, Any] | None:
        """None when the object has this status already, or the policy was not read yet."""
        policies = inputs.telemetry.policies
        used, refused = policies.used.get(policy.key), policies.refused.get(policy.key)
        if used is None and refused is None:
            return None
        current = policy.status.value if isinstance(policy.status.value, Mapping) else {}
        status = build_status(
            used, refused, current, f"{self._wall_clock():%Y-%m-%dT%H:%M:%SZ}", _unreported_metrics(used, inputs)
        )
        # An empty field may be absent.
        same = all(current.get(key, None if value else value) == value for key, value in status.items())
        return None if same else status

    async def _update(self, policy: TasPolicyObject, status: dict[str, Any]) -> None:
        accepted = status["conditions"][0]
        last_messages, at = self._written_at.get(policy.key, ("", 0.0))
        messages = f"{accepted['status']} {accepted['message']} {status['conditions'][1]['message']}"
        if messages == last_messages and self._clock() - at < REWRITE_INTERVAL_SECONDS:
            return
        self._written_at[policy.key] = messages, self._clock()
        if await self._patch(policy, status) and accepted["status"] == "False" and messages != last_messages:
            about = ObjectReference(
                TASPOLICY_KIND, policy.metadata.namespace, policy.metadata.name, policy.metadata.uid
            )
            api = f"{TASPOLICY_GROUP}/{TASPOLICY_VERSION}"
            self._recorder.record(about, "PolicyRefused", accepted["message"], "Accept", warning=True, api_version=api)

    async def _patch(self, policy: TasPolicyObject, status: dict[str, Any]) -> bool:
        path = TASPOLICY_RESOURCE.path(policy.metadata.namespace, policy.metadata.name, "status")
        try:
            await self._client.patch(path, {"status": status})
        except (NotFound, NotLeader):
            return False
        except ApiError as error:
            _log.warning(
                "cannot write the status of policy %s: %s: %s; retrying in %g s",
                policy.key,
                type(error).__name__,
                error,
                REWRITE_INTERVAL_SECONDS,
            )
            return False
        self.written += 1
        return True


def _unreported_metrics(used: TasPolicy | None, inputs: DecisionInputs) -> list[str]:
    return sorted(metric for metric in used.metrics if not reporting_nodes(metric, inputs)) if used else []
