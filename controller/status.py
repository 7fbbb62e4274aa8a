"""What `kubectl get taspolicy` shows: whether a policy was accepted, whether it is in use, and what is wrong with it.

Written when it differs from what stands there; an Event tells of a policy that was refused. Pure but for `Statuses`.
"""

import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from apiserver.errors import ApiError, NotFound
from apiserver.objects import Involved
from apiserver.requests import Client
from controller.recorder import Recorder
from decision.telemetry.known import Policies
from decision.telemetry.policy import GROUP, KIND, VERSION, PolicyKey, Problem
from telemetry.policies import TASPOLICIES, PolicyObject

_log = logging.getLogger(__name__)

AGAIN_SECONDS = 60.0
"""A status that does not stay as written (another CRD prunes it, or another controller writes it) is not fought for."""


class Condition(Struct, frozen=True, rename="camel", omit_defaults=False):
    """meta/v1 Condition. last_transition_time: when status last changed."""

    type: str
    status: str
    reason: str
    message: str
    observed_generation: int
    last_transition_time: str = ""


def wanted(key: PolicyKey, generation: int, policies: Policies) -> tuple[Condition, Condition]:
    """Accepted, of the newest version; Active, of any."""
    used, refused = policies.used.get(key), policies.refused.get(key)
    if refused:
        accepted = Condition("Accepted", "False", "Invalid", str(refused.problem), refused.generation)
        text = f"generation {used.generation} stays in use" if used else "no version of it could be used"
        reason = "LastGoodVersion" if used else "NotUsed"
        return accepted, Condition("Active", str(bool(used)), reason, text, refused.generation)
    problems = "; ".join(map(str, used.problems)) if used else ""
    reason = "ValidWithProblems" if problems else "Valid"
    return (
        Condition("Accepted", "True", reason, problems or "every rule is used", generation),
        Condition("Active", "True", "InUse", "pods and nodes are judged by it", generation),
    )


def merged(present: Any, conditions: tuple[Condition, ...], now: str) -> list[dict[str, Any]] | None:
    """The list to write: ours, with the time when each last changed, and those of others. None: it stands there so."""
    standing = {each["type"]: each for each in _conditions(present)}
    made = {condition.type: _plain(condition, standing.get(condition.type), now) for condition in conditions}
    after = standing | made
    return None if after == standing else list(after.values())


def problems(key: PolicyKey, policies: Policies) -> tuple[Problem, ...]:
    """Of the newest version, field by field."""
    if refused := policies.refused.get(key):
        return (refused.problem,)
    return policies.used[key].problems if key in policies.used else ()


def status(
    found: PolicyObject, conditions: tuple[Condition, ...], problems: tuple[Problem, ...], now: str
) -> dict[str, Any] | None:
    """What to write; None: it stands there so."""
    told = [{"field": problem.path, "message": problem.text} for problem in problems]
    present = found.status if isinstance(found.status, Mapping) else {}
    after = merged(present, conditions, now)
    if after is None and (present.get("problems") or []) == told:
        return None
    rest = {"observedGeneration": conditions[0].observed_generation, "problems": told}
    return rest if after is None else {"conditions": after, **rest}


def _conditions(present: Any) -> list[dict[str, Any]]:
    found = present.get("conditions") if isinstance(present, Mapping) else None
    return [each for each in found or () if isinstance(each, dict) and "type" in each]


def _plain(condition: Condition, before: dict[str, Any] | None, now: str) -> dict[str, Any]:
    same = before is not None and before.get("status") == condition.status
    since = before["lastTransitionTime"] if same and before and before.get("lastTransitionTime") else now
    return {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "observedGeneration": condition.observed_generation,
        "lastTransitionTime": since,
    }


class Statuses:
    """Call `round` in turn. clock: monotonic seconds. For metrics: written."""

    def __init__(
        self,
        client: Client,
        recorder: Recorder,
        clock: Callable[[], float],
        wall_clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ):
        self.written = 0
        self._client, self._recorder, self._clock, self._wall_clock = client, recorder, clock, wall_clock
        self._tried: dict[PolicyKey, tuple[tuple[Condition, ...], float]] = {}

    async def round(self, objects: Mapping[tuple[str, str], PolicyObject], policies: Policies) -> None:
        """One after the other: there are few policies."""
        self._tried = {found.key: tried for found in objects.values() if (tried := self._tried.get(found.key))}
        for found in objects.values():
            if found.key in policies.used or found.key in policies.refused:
                conditions = wanted(found.key, found.metadata.generation, policies)
                await self._settle(found, conditions, problems(found.key, policies))

    async def _settle(
        self, found: PolicyObject, conditions: tuple[Condition, ...], problems: tuple[Problem, ...]
    ) -> None:
        body = status(found, conditions, problems, f"{self._wall_clock():%Y-%m-%dT%H:%M:%SZ}")
        tried, at = self._tried.get(found.key, ((), 0.0))
        if body is None or (tried == conditions and self._clock() - at < AGAIN_SECONDS):
            return
        self._tried[found.key] = conditions, self._clock()
        if await self._wrote(found, body) and conditions[0].status == "False" and tried != conditions:
            about = Involved(KIND, found.metadata.namespace, found.metadata.name, found.metadata.uid)
            self._recorder.record(
                about, "PolicyRefused", conditions[0].message, "Accept", warning=True, api_version=f"{GROUP}/{VERSION}"
            )

    async def _wrote(self, found: PolicyObject, status: Mapping[str, Any]) -> bool:
        path = TASPOLICIES.path(found.metadata.namespace, found.metadata.name, "status")
        try:
            await self._client.patch(path, {"status": status})
        except NotFound:
            return False
        except ApiError as error:
            _log.warning("status of policy %s cannot be written: %s: %s", found.key, type(error).__name__, error)
            return False
        self.written += 1
        return True
