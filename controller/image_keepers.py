"""Creates and deletes the pods that keep images on backup nodes, where the API server has image volumes."""

import contextlib
import logging
import re
import time
from collections.abc import Callable

from msgspec import Struct

from controller.placeholders import image_keeper_body
from controller.settings import PlaceholderSettings
from leadsman.cluster.model import Cluster
from leadsman.kube.client import ApiClient
from leadsman.kube.errors import ApiError, NotFound, NotLeader, Unavailable
from leadsman.kube.names import PLACEHOLDER_NAMESPACE
from leadsman.kube.resources import PODS
from leadsman.planning.backups.model import BackupPlan
from leadsman.planning.backups.placeholders import DeletePlaceholder
from leadsman.planning.backups.warm_images import KeepImages, WarmImagesAction, plan_warm_images
from leadsman.runtime.problem_log import ProblemLog

_log = logging.getLogger(__name__)

FIRST_MINOR = 36
"""Image volumes are part of every API server from Kubernetes 1.36 on (KEP-4639). Older ones may refuse the pods."""

RETRY_SECONDS = 600.0
"""After a pod was refused, or was there and had ended: kubelet evicts such pods first where the disk is full."""


MAX_WRITES = 10
"""With each plan, so that a rollout of many images holds up no placeholder."""


class _Version(Struct):
    minor: str = ""


class ImageKeepers:
    """Call `sync` after each plan of backups while this replica leads.

    most: images a node; 0: none, and pods that keep some are deleted.
    """

    def __init__(
        self,
        client: ApiClient,
        is_leader: Callable[[], bool],
        settings: PlaceholderSettings,
        most: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client, self._is_leader, self._settings = client, is_leader, settings
        self._most, self._clock = most, clock
        self._asked = most == 0
        self._not_before: dict[str, float] = {}
        self._problem = ProblemLog(
            _log,
            "controller cannot write pods that keep images; it tries again, and failovers pull images meanwhile",
            "controller writes pods that keep images again",
        )

    async def sync(self, cluster: Cluster, plan: BackupPlan) -> None:
        """Has the pods follow the plan, a few with each call, because placeholders are more urgent."""
        try:
            if not self._asked:
                await self._ask_version()
            due = [each for each in plan_warm_images(cluster, plan, self._most) if self._is_due(each)]
            for action in due[:MAX_WRITES]:
                if not self._is_leader():
                    return
                await self._try(action)
        except NotLeader:
            return
        except ApiError as error:
            self._problem.report(error)
        else:
            self._problem.clear()

    async def _ask_version(self) -> None:
        found = (await self._client.get("/version", _Version)).minor
        digits = re.match(r"\d+", found)
        self._asked = True
        if digits is None or int(digits[0]) < FIRST_MINOR:
            _log.warning(
                "no images are kept on backup nodes: the API server is of Kubernetes 1.%s, and image volumes need 1.%d",
                found,
                FIRST_MINOR,
            )
            self._most = 0

    def _is_due(self, action: WarmImagesAction) -> bool:
        return isinstance(action, DeletePlaceholder) or self._clock() >= self._not_before.get(action.key, 0.0)

    async def _try(self, action: WarmImagesAction) -> None:
        """Unavailable. What the API server refuses is logged, and tried again later."""
        try:
            if isinstance(action, DeletePlaceholder):
                await self._client.delete(PODS.path(action.namespace, action.name), action.uid)
                _log.info("deleted %s: %s", action.name, action.reason)
            else:
                await self._create(action)
                _log.info("node %s is to keep %s", action.node, ", ".join(action.images))
        except (Unavailable, NotLeader):
            raise
        except NotFound:
            pass
        except ApiError as error:
            _log.warning("pod that keeps images is not written, and tried again in 10 min: %s", error)
            if isinstance(action, KeepImages):
                self._not_before[action.key] = self._clock() + RETRY_SECONDS

    async def _create(self, action: KeepImages) -> None:
        body = image_keeper_body(action, self._settings)
        if self._not_before.pop(action.key, None) is not None:  # what is left of one that ended may be in its place
            with contextlib.suppress(NotFound):
                await self._client.delete(PODS.path(PLACEHOLDER_NAMESPACE, body["metadata"]["name"]))
        await self._client.create(PODS.path(PLACEHOLDER_NAMESPACE), body)
