"""A fake API server, and a reflector of its pods that runs while a test does."""

import random
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from leadsman.kube.access import ApiAccess
from leadsman.kube.client import ApiClient
from leadsman.kube.listing import ListOptions
from leadsman.kube.objects import Pod
from leadsman.kube.reflector import Reflector
from leadsman.kube.resources import PODS
from tests.testbed.background import running
from tests.testbed.kube_apiserver import KubeApiServer
from tests.testbed.scripted_api_server import FakeApiServer
from tests.waiting import until

WITHIN_SECONDS = 30.0
PODS_OF_DEFAULT = "/api/v1/namespaces/default/pods"
WEB = f"{PODS_OF_DEFAULT}/web-0"
NEW = f"{PODS_OF_DEFAULT}/web-1"


def pod(node: str = "n1", **more: Any) -> dict[str, Any]:
    return {"spec": {"nodeName": node}} | more


def versions(api: FakeApiServer, verb: str = "watch") -> list[str | None]:
    """The resourceVersions that were asked for."""
    return [asked.query.get("resourceVersion") for asked in api.requests if asked.verb == verb]


@pytest.fixture(scope="session")
def cluster(kubernetes_binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubeApiServer]:
    """A real one, for all that is tried on it."""
    folder = tmp_path_factory.mktemp("cluster") / "kubernetes"
    with KubeApiServer(kubernetes_binaries, folder) as one:
        yield one


@pytest.fixture
def web(api: FakeApiServer) -> None:
    """One pod is there from the beginning."""
    api.put(WEB, pod())


@pytest.fixture
async def client(api: FakeApiServer) -> AsyncIterator[ApiClient]:
    async with ApiClient(ApiAccess(api.url), deadline_seconds=WITHIN_SECONDS) as one:
        yield one


class Following(Reflector[Pod]):
    """Pods, with everything that it was told of changes in `told`."""

    def __init__(self, client: ApiClient, wanted: ListOptions = ListOptions(PODS), **settings: Any):  # noqa: B008
        self.told: list[Any] = []
        quick: dict[str, Any] = {"longest_pause_seconds": 0.05, "rng": random.Random(1)}
        super().__init__(client, wanted, Pod, on_changes=self.told.extend, **quick | settings)

    @property
    def names(self) -> set[str]:
        return {name for _, name in self.current}

    @property
    def is_watching(self) -> bool:
        """Whether it has the answer to a watch: the API server counts one as soon as it has the request."""
        return self._opened_at < float("inf")


Follow = Callable[..., AbstractAsyncContextManager[Following]]


@pytest.fixture
def following(client: ApiClient) -> Follow:
    """Runs a Following until the block ends; it has listed and watches, unless told not to wait."""

    @asynccontextmanager
    async def run(*, loaded: bool = True, client: ApiClient = client, **settings: Any) -> AsyncIterator[Following]:
        one = Following(client, **settings)
        async with running(one.run()):
            if loaded:
                await until(lambda: one.loaded.is_set() and one.is_watching, WITHIN_SECONDS)
            yield one

    return run
