"""Follows the whole cluster on the API server, for whatever plans with it.

The list of pods is the largest thing that a controller holds, so this runs only where a feature needs it. RBAC:
daemonset/components/backups/cluster-model.yaml.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from leadsman.cluster.model import Cluster
from leadsman.kube.client import ApiClient
from leadsman.kube.listing import ListOptions
from leadsman.kube.reflector import Reflector
from leadsman.kube.resources import (
    CSI_NODES,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    RESOURCE_QUOTAS,
    STORAGE_CLASSES,
)
from leadsman.sources.cluster.cluster_assembly import OBJECT_TYPES, ClusterAssembly
from leadsman.sources.cluster.workload_follower import UNFINISHED_PODS

MAX_BACKOFF_SECONDS = 4.0
"""Between attempts, as for workloads: one process follows."""

LISTS: Mapping[str, ListOptions] = {
    "Node": ListOptions(NODES),
    "CSINode": ListOptions(CSI_NODES),
    "Pod": ListOptions(PODS, field_selector=UNFINISHED_PODS),
    "Namespace": ListOptions(NAMESPACES, metadata_only=True),
    "PodDisruptionBudget": ListOptions(POD_DISRUPTION_BUDGETS),
    "ResourceQuota": ListOptions(RESOURCE_QUOTAS),
    "PersistentVolume": ListOptions(PERSISTENT_VOLUMES),
    "PersistentVolumeClaim": ListOptions(PERSISTENT_VOLUME_CLAIMS),
    "StorageClass": ListOptions(STORAGE_CLASSES),
}
"""Kind → what is listed and watched."""


class ClusterFollower:
    """Keeps the Cluster up to date. `run` it as one task; readers take `current`.

    clock: monotonic seconds, as readers pass to `age_seconds`.

    The cluster stays as it is while the API server is away: its age says so.
    """

    def __init__(self, client: ApiClient, clock: Callable[[], float] = time.monotonic) -> None:
        self._assembly = ClusterAssembly()
        self.reflectors: Mapping[str, Reflector[Any]] = {
            kind: Reflector(
                client,
                options,
                OBJECT_TYPES[kind],
                on_changes=partial(self._assembly.apply, kind),
                longest_pause_seconds=MAX_BACKOFF_SECONDS,
                clock=clock,
            )
            for kind, options in LISTS.items()
        }

    @property
    def current(self) -> Cluster | None:
        return self._assembly.cluster if self.loaded else None

    @property
    def loaded(self) -> bool:
        """Whether everything was listed once. A part that is missing would make room and rights that are not there."""
        return all(reflector.loaded.is_set() for reflector in self.reflectors.values())

    @property
    def problem(self) -> str:
        return next((each.problem.text for each in self.reflectors.values() if each.problem.text), "")

    def age_seconds(self, now: float) -> float:
        return max(reflector.age_seconds(now) for reflector in self.reflectors.values())

    async def run(self) -> None:
        """Follows until cancelled."""
        async with asyncio.TaskGroup() as group:
            for reflector in self.reflectors.values():
                group.create_task(reflector.run(), name=f"watch {reflector.list_options.resource.plural}")
