"""Creates, resizes and deletes placeholders as a plan says."""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from controller.placeholder_pod import PlaceholderSettings, placeholder_body, resize_body
from leadsman.kube.client import ApiClient, PatchType
from leadsman.kube.errors import ApiError, Conflict, Forbidden, NotFound, Unavailable
from leadsman.kube.names import PLACEHOLDER_NAMESPACE
from leadsman.kube.resources import PODS
from leadsman.planning.backups.placeholders import (
    CreatePlaceholder,
    DeletePlaceholder,
    PlaceholderAction,
    ResizePlaceholder,
)
from leadsman.runtime.problem_log import ProblemLog
from leadsman.runtime.token_bucket import TokenBucket

_log = logging.getLogger(__name__)


class PlaceholderWriter:
    """Executes actions, one after the other.

    is_leader: asked before each.
    rate: of writes.
    problems: node → why its placeholders could not be created or resized when that was last tried.
    results: (verb, result) → actions; result: done, gone, refused or failed.
    deleted: UIDs of the placeholders that this process deleted: they are not lost.
    """

    def __init__(
        self, client: ApiClient, is_leader: Callable[[], bool], rate: TokenBucket, settings: PlaceholderSettings
    ) -> None:
        self.problems: dict[str, str] = {}
        self.results: Counter[tuple[str, str]] = Counter()
        self.deleted: set[str] = set()
        self._client, self._is_leader, self._rate, self._settings = client, is_leader, rate, settings
        self._problem = ProblemLog(
            _log,
            "controller cannot write placeholders; the next plan tries again",
            "controller writes placeholders again",
        )

    async def apply(self, actions: Iterable[PlaceholderAction], node_of: Mapping[str, str]) -> None:
        """Executes the actions. When the API server does not answer, the rest is left for the next plan.

        node_of: UID of a placeholder → its node.
        """
        self.problems = {}
        for action in actions:
            await self._rate.wait()
            if not self._is_leader():
                return
            node = action.node if isinstance(action, CreatePlaceholder) else node_of.get(action.uid, "")
            verb = _VERBS[type(action)]
            try:
                await self._execute(action)
            except NotFound:
                self.results[verb, "gone"] += 1
            except Unavailable as error:
                self.results[verb, "failed"] += 1
                self._problem.report(error)
                return
            except (Forbidden, Conflict, ApiError) as error:
                self.results[verb, "refused"] += 1
                self.problems[node] = f"the API server refuses its placeholder: {error}"
                self._problem.report(error)
            else:
                self.results[verb, "done"] += 1
                _log.info("%s placeholder %s: %s", _PAST[verb], _described(action), action.reason)
        if not self.problems:
            self._problem.clear()

    async def _execute(self, action: PlaceholderAction) -> None:
        match action:
            case CreatePlaceholder():
                await self._client.create(PODS.path(PLACEHOLDER_NAMESPACE), placeholder_body(action, self._settings))
            case ResizePlaceholder():
                path = PODS.path(action.namespace, action.name, "resize")
                await self._client.patch(path, resize_body(action.requests), PatchType.STRATEGIC)
            case DeletePlaceholder():
                self.deleted.add(action.uid)
                await self._client.delete(PODS.path(action.namespace, action.name), action.uid)


_VERBS = {CreatePlaceholder: "create", ResizePlaceholder: "resize", DeletePlaceholder: "delete"}
_PAST = {"create": "created", "resize": "resized", "delete": "deleted"}


def _described(action: PlaceholderAction) -> str:
    if isinstance(action, DeletePlaceholder):
        return action.name
    size = f"{action.requests.cpu_millis}m CPU, {action.requests.memory_bytes / 2**20:.0f} MiB"
    return f"on node {action.node} ({size})" if isinstance(action, CreatePlaceholder) else f"{action.name} ({size})"
