"""What all tests share: how they are spread over processes, the option that makes a skipped test a failure, the folder
of a real kube-apiserver, and no example of hypothesis timed."""

import inspect
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from leadsman.runtime import connections, http_server, server_tls
from leadsman.runtime.log_limit import LogLimit
from leadsman.testbed.etcd import Etcd
from tests import waiting
from tests.testbed import kube_apiserver
from tests.testbed.scripted_api_server import FakeApiServer

# Hundreds of processes start, and each would compile what it imports again: half a second of CPU.
sys.dont_write_bytecode = False
os.environ["PYTHONDONTWRITEBYTECODE"] = ""

# As in our processes: threads of OpenBLAS spin beside the other workers. A fit took 18 s of CPU with them, 11 without.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("brief", settings.get_profile("untimed"), max_examples=10)
settings.load_profile("untimed")

signal.signal(signal.SIGINT, signal.default_int_handler)
"""A shell starts its background jobs with SIGINT ignored, and tests send it to processes that would inherit that."""

BEYOND_CI = "KUBEBUILDER_ASSETS"
"""In the reason of a skip that --no-skips forgives: no Debian or PyPI package brings a kube-apiserver."""

ROOMS_OF_LONG_TESTS = ("failover", "whole", "leadsman/cli")
"""Most of their tests start processes and wait for them."""

QUICK_ROOMS = ("agent", "controller", "extender", "leadsman")
NOT_QUICK = (
    *("agent/peering", "extender/page", "extender/plugins", "leadsman/cli", "leadsman/etcd", "leadsman/network"),
    *("agent/pods/test_day_of_churn.py", "extender/test_body_memory.py", "extender/test_fuzz.py"),
    *("leadsman/decision/delay/test_one_evaluation.py", "leadsman/rewards/test_strategies.py"),
    *("leadsman/simulator", "leadsman/sources/delay", "leadsman/planning/test_proposals.py"),
    *(f"leadsman/planning/{room}" for room in ("capacity", "moves", "optimise", "replacement")),
)
"""`make test ARGS="-m quick"` answers in about one minute: rooms whose tests compute, but not for long."""

Until = Callable[..., Awaitable[None]]


@pytest.fixture
def until() -> Until:
    """`await until(condition)`."""
    return waiting.until


@pytest.fixture(autouse=True)
def log_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test has all the log lines that strangers may cause."""
    for logger in (logging.getLogger(each.__name__) for each in (connections, http_server)):
        monkeypatch.setattr(logger, "filters", _renewed(logger))
    monkeypatch.setattr(server_tls.client_log, "filters", _renewed(server_tls.client_log))


def _renewed(logger: logging.Logger) -> list[object]:
    return [LogLimit() if isinstance(each, LogLimit) else each for each in logger.filters]


@pytest.fixture
async def api() -> AsyncIterator[FakeApiServer]:
    async with FakeApiServer() as one:
        yield one


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    """A real one that a file's tests share."""
    with Etcd(tmp_path_factory.mktemp("etcd") / "data") as one:
        yield one


@pytest.fixture(scope="session")
def kubernetes_binaries() -> Path:
    """What `Kubernetes` is started from; the test is skipped where there is none."""
    try:
        return kube_apiserver.find_assets(os.environ)
    except kube_apiserver.KubeApiServerMissing as missing:
        pytest.skip(str(missing))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """For `-n auto`: twice as many as this process has cores, because many tests wait for processes and timers."""
    return 2 * len(os.sched_getaffinity(0))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Does not even import what has no quick test: that takes each worker seconds."""
    only_quick = config.getoption("markexpr") in ("quick", "timeless") and collection_path.suffix == ".py"
    return True if only_quick and not _may_be_quick(collection_path) else None


def pytest_itemcollected(item: pytest.Item) -> None:
    slow = item.get_closest_marker("slow") or item.get_closest_marker("integration")
    if _may_be_quick(item.path) and not slow:
        item.add_marker("quick")
        fixtures = getattr(item, "fixturenames", ())
        if not (inspect.iscoroutinefunction(getattr(item, "function", None)) or "etcd" in fixtures):
            item.add_marker("timeless")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long files come first, so that no process is left with one of them at the end."""
    long_files = {
        item.path for item in items if _is_in(item.path, ROOMS_OF_LONG_TESTS) or item.get_closest_marker("slow")
    }
    items.sort(key=lambda item: item.path not in long_files)


def _may_be_quick(path: Path) -> bool:
    return _is_in(path, QUICK_ROOMS) and not _is_in(path, NOT_QUICK)


@cache  # asked for each of thousands of tests
def _is_in(path: Path, rooms: tuple[str, ...]) -> bool:
    return any(path.is_relative_to(Path(__file__).parent / room) for room in rooms)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--no-skips", action="store_true", help="fail when a test was skipped, as CI must")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if config.getoption("--no-skips") and _unforgiven(terminalreporter):
        terminalreporter.write_line("--no-skips: a skipped test is a failure here", red=True)


def pytest_sessionfinish(session: pytest.Session) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if session.config.getoption("--no-skips") and reporter is not None and _unforgiven(reporter):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _unforgiven(reporter: pytest.TerminalReporter) -> list[pytest.TestReport]:
    return [report for report in reporter.stats.get("skipped", []) if BEYOND_CI not in str(report.longrepr)]
