"""Observes how well healthy pods run, by their own metric and by plugins. An unreadable value changes nothing."""

import asyncio
import contextlib
import logging
import math
import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import aiohttp
from msgspec import Struct

from agent.pods.incident_ledger import IncidentLedger
from agent.pods.incidents import is_healthy
from agent.quarantine import Quarantine, after_overrun, is_over
from leadsman.kube.names import DIRECTION_ANNOTATION, PATH_ANNOTATION, PORT_ANNOTATION, SERIES_ANNOTATION
from leadsman.kube.objects import Pod
from leadsman.plugin import REWARDS_GROUP, Reward, RunningPod
from leadsman.plugin_loading import BadPlugin, load_plugin
from leadsman.runtime.daemon_thread import run_in_daemon_thread
from leadsman.runtime.problem_log import ProblemLog

# A pod's annotations on its own reward: where its metric is, and which direction is better.
#
# leadsman.dev/reward-port: "9100"                the pod's port
# leadsman.dev/reward-path: /metrics              default /metrics
# leadsman.dev/reward-series: queue_seconds       as below
# leadsman.dev/reward-direction: lower            lower (default) or higher is better

# One value out of a page of metrics in Prometheus' text format.
#
# queue_seconds                                          a gauge: the mean of its samples
# queue_seconds{queue="in"}                              of those samples only
# request_seconds_sum / request_seconds_count            a mean over time: the increase of one by that of the other
#
# Source: github.com/prometheus/docs, exposition_formats: name, labels, value, timestamp.

_NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
_LABEL = r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"'
_SELECTOR = re.compile(rf"({_NAME})(?:\{{(\s*{_LABEL}\s*(?:,\s*{_LABEL}\s*)*,?\s*)?\}})?")
_LABELS = re.compile(rf"(?<![a-zA-Z0-9_]){_LABEL}")
"""Only from where a name begins: else a page with one long name would be looked through from each of its letters."""

_SAMPLE = re.compile(rf"({_NAME})(?:\{{(.*)\}})?\s+(\S+)(?:\s+-?\d+)?\s*")


class InvalidAnnotation(ValueError):
    """An annotation has a value that is not allowed. The text names both, and what is allowed."""


SeriesSelector = tuple[str, Mapping[str, str]]
"""The samples of one name that have all these labels."""

SeriesExpression = tuple[SeriesSelector, SeriesSelector | None]
"""Selects one value of a page: a gauge, or with a second counter the increase of the first divided by that of it."""


def parse_expression(text: str) -> SeriesExpression:
    """Returns the expression that the text is. Raises InvalidAnnotation when it is none."""
    numerator, slash, denominator = text.partition(" / ")
    return _selector(numerator), _selector(denominator) if slash else None


def evaluate_page(series: SeriesExpression, page: str) -> tuple[float, float | None] | None:
    """Returns the sums of numerator and denominator on the page, or (mean, None) of a gauge; None when a series is
    missing."""
    numerators, *denominators = (_values(each, page) for each in series if each)
    if not numerators or [] in denominators:
        return None
    return (sum(numerators), sum(denominators[0])) if denominators else (sum(numerators) / len(numerators), None)


def value_between(before: tuple[float, float | None] | None, after: tuple[float, float | None]) -> float | None:
    """Returns the value between two reads; None at the first read, when nothing happened and when the counters were
    reset."""
    if after[1] is None:
        return after[0]
    if before is None or before[1] is None:
        return None
    numerator, denominator = after[0] - before[0], after[1] - before[1]
    return numerator / denominator if denominator > 0 and numerator >= 0 else None


def _values(selector: SeriesSelector, page: str) -> list[float]:
    """Returns those of the selected samples that are numbers: neither NaN nor an infinity is a value."""
    values, (name, labels) = [], selector
    for line in page.splitlines():
        sample = _SAMPLE.fullmatch(line) if line.startswith(name) else None
        if sample and sample[1] == name and labels.items() <= _labels(sample[2] or "").items():
            with contextlib.suppress(ValueError):
                values.append(float(sample[3]))
    return [value for value in values if math.isfinite(value)]


def _selector(text: str) -> SeriesSelector:
    match = _SELECTOR.fullmatch(text.strip())
    if match is None:
        raise InvalidAnnotation(
            f'{SERIES_ANNOTATION} {text.strip()!r}: must be name, name{{label="value"}} or one / another'
        )
    return match[1], _labels(match[2] or "")


def _labels(text: str) -> dict[str, str]:
    return dict(_LABELS.findall(text))


_PORT = re.compile(r"[0-9]{1,5}", re.ASCII)
_MAX_PORT = 65_535
_LONGEST_PATH = 256
_LONGEST_SERIES = 512
_LONGEST_QUALITY = 128


class RewardMetric(Struct, frozen=True):
    """The metric that a pod names.

    url: on the pod's own address.
    quality: its name in the reward.
    """

    url: str
    series: SeriesExpression
    quality: str
    higher_is_better: bool

    def cost(self, value: float) -> float:
        """Returns the cost of a value: lower is better. 0 for a value that has no cost, which observations ignore."""
        return value if not self.higher_is_better else 1 / value if value > 0 else 0.0


def parse_reward_metric(pod: Pod) -> RewardMetric | None:
    """Returns the metric that the pod's annotations name; None when they name none. Raises InvalidAnnotation.

    None too for a pod without an address of its own: on its host's address it could name any port.
    """
    annotations, address = pod.metadata.annotations, pod.status.pod_ip
    if SERIES_ANNOTATION not in annotations or not address or address == pod.status.host_ip:
        return None
    host = f"[{address}]" if ":" in address else address
    series, url = annotations[SERIES_ANNOTATION], f"http://{host}:{_port(annotations)}{_path(annotations)}"
    # The series as a metric's name, which a reward's qualities have.
    quality = re.sub(r"[^a-zA-Z0-9_]+", "_", series).strip("_")[:_LONGEST_QUALITY]
    return RewardMetric(url, _series(series), quality, _parse_direction(annotations))


def _port(annotations: Mapping[str, str]) -> int:
    text = annotations.get(PORT_ANNOTATION, "")
    if not (_PORT.fullmatch(text) and 0 < int(text) <= _MAX_PORT):
        raise InvalidAnnotation(f"{PORT_ANNOTATION} {_shown(text)}: must be a port number, 1 to {_MAX_PORT}")
    return int(text)


def _path(annotations: Mapping[str, str]) -> str:
    path = annotations.get(PATH_ANNOTATION, "/metrics")
    if not re.fullmatch(r"/[!-~]*", path) or len(path) > _LONGEST_PATH:
        raise InvalidAnnotation(
            f"{PATH_ANNOTATION} {_shown(path)}: must begin with / and have at most {_LONGEST_PATH} characters"
        )
    return path


def _series(text: str) -> SeriesExpression:
    if len(text) > _LONGEST_SERIES:
        raise InvalidAnnotation(
            f"{SERIES_ANNOTATION} has {len(text)} characters; at most {_LONGEST_SERIES} are allowed"
        )
    return parse_expression(text)


def _parse_direction(annotations: Mapping[str, str]) -> bool:
    direction = annotations.get(DIRECTION_ANNOTATION, "lower")
    if direction not in ("lower", "higher"):
        raise InvalidAnnotation(f"{DIRECTION_ANNOTATION} {_shown(direction)}: must be lower or higher")
    return direction == "higher"


def _shown(value: str) -> str:
    """Cuts the value for the log: an annotation may have 256 KiB."""
    return repr(value) if len(value) <= _LONGEST_PATH else f"{value[:_LONGEST_PATH]!r}…"


# Rewards of other packages: how well a pod runs, by their own measure.
#
# A plugin is asked about every healthy pod each `observe_seconds`, one pod after another, in a thread that the agent
# does not wait for when it is late: then it rests, as a slow collector does.

log = logging.getLogger(__name__)

PLUGIN_DEADLINE_SECONDS = 2.0


class RewardPlugin:
    """Holds one loaded plugin. problem: why its last call gave no costs. clock: monotonic seconds."""

    def __init__(self, name: str, plugin: Reward, clock: Callable[[], float] = time.monotonic) -> None:
        self.name, self._plugin, self._clock = name, plugin, clock
        self.problem = ProblemLog(log, f"reward plugin {name} gave no costs", f"reward plugin {name} gives costs again")
        self._quarantine: Quarantine | None = None
        self._late: asyncio.Future[dict[str, float]] | None = None

    async def observe(self, pod: Pod) -> Mapping[str, float]:
        """Returns the pod's costs by the plugin; none while it rests, or when it fails."""
        is_running = self._late is not None and not self._late.done()
        if self._quarantine and not is_over(self._quarantine, self._clock(), is_running):
            return {}
        began, of = self._clock(), pod.metadata
        running_pod = RunningPod(of.namespace, of.name, of.uid, of.labels, of.annotations, pod.status.pod_ip)
        call = asyncio.ensure_future(run_in_daemon_thread(lambda: self._costs(running_pod), "reward plugin"))
        await asyncio.wait([call], timeout=PLUGIN_DEADLINE_SECONDS)
        if not call.done():
            self._late, self._quarantine = call, after_overrun(self._quarantine, began, self._clock())
            pause = self._quarantine.not_before_seconds - self._clock()
            self.problem.report(
                f"it took over {PLUGIN_DEADLINE_SECONDS:g} s; it rests for {pause:.0f} s, and until its thread ends",
                kind="late",
            )
            call.add_done_callback(
                lambda late: late.cancelled() or late.exception()
            )  # Whatever it was, it is too late.
            return {}
        if error := call.exception():
            self.problem.report(f"{type(error).__name__}: {error}")
            return {}
        self._quarantine = None
        self.problem.clear()
        return call.result()

    def _costs(self, pod: RunningPod) -> dict[str, float]:
        costs = {str(name): float(cost) for name, cost in self._plugin.costs(pod).items()}
        for name, cost in costs.items():
            if not 0.0 < cost < math.inf:
                raise BadPlugin(f"{name!r} costs {cost:g}; a cost is a number above 0")
        return costs


def reward_plugins(names: Collection[str]) -> list[RewardPlugin]:
    """Loads these plugins, as far as they can be loaded; the others are logged."""
    loaded = []
    for name in names:
        try:
            loaded.append(RewardPlugin(name, load_plugin(REWARDS_GROUP, name)))
        except Exception as error:  # A stranger's code: whatever it raises must not end the agent.
            log.error("reward plugin %s cannot be loaded: %s: %s", name, type(error).__name__, error)
    return loaded


# Reads a pod's own metric over HTTP. A read that fails teaches nothing: a dead endpoint is no bad value.
#
# Bounds: 2 s, 1 MiB, 4 at once, no redirect, and each metric once in `observe_seconds`.

DEADLINE_SECONDS = 2.0
MAX_PAGE_BYTES = 1 << 20
MAX_CONCURRENT = 4


class MetricScraper:
    """Scrapes pods, and remembers the last sums of each metric for values that are a rate of two counters."""

    def __init__(self, deadline_seconds: float = DEADLINE_SECONDS) -> None:
        self._deadline_seconds = deadline_seconds
        self._session: aiohttp.ClientSession | None = None
        self._before: dict[str, tuple[RewardMetric, tuple[float, float | None]]] = {}

    async def scrape_cost(self, uid: str, metric: RewardMetric) -> float | None:
        """Returns the cost that the metric has now; None when it is unknown."""
        page = await self._page(metric.url)
        after = evaluate_page(metric.series, page) if page is not None else None
        if after is None:
            return None
        known, before = self._before.get(uid, (metric, None))
        value = value_between(before if known == metric else None, after)
        self._before[uid] = metric, after
        return None if value is None else metric.cost(value)

    def keep_only(self, uids: set[str]) -> None:
        self._before = {uid: reading for uid, reading in self._before.items() if uid in uids}

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _page(self, url: str) -> str | None:
        try:
            async with (
                asyncio.timeout(self._deadline_seconds),
                self._http().get(url, allow_redirects=False, headers={"Accept": "text/plain"}) as response,
            ):
                body = await _read(response) if response.status == 200 else None
        except (TimeoutError, aiohttp.ClientError, OSError, ValueError):
            return None
        return None if body is None else body.decode(errors="replace")

    def _http(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=MAX_CONCURRENT, force_close=True)
            self._session = aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())
        return self._session


async def _read(response: aiohttp.ClientResponse) -> bytes | None:
    """Returns the page; None when it is too large."""
    body = bytearray()
    async for chunk in response.content.iter_chunked(1 << 16):
        body += chunk
        if len(body) > MAX_PAGE_BYTES:
            return None
    return bytes(body)


MAX_PODS = 128
"""Scraped in one round. Of more pods, those that come first by UID are."""


class QualityObserver:
    """Observes all healthy pods in rounds.

    annotation_errors: pod's UID → what is wrong with its annotations; "" when nothing is.
    """

    def __init__(
        self, ledger: Callable[[], IncidentLedger], interval_seconds: float, plugins: Sequence[RewardPlugin] = ()
    ) -> None:
        """interval_seconds: between two rounds; 0 switches them off."""
        self._ledger, self._interval_seconds = ledger, interval_seconds
        self.plugins = plugins
        self.scraper = MetricScraper()
        self.annotation_errors: dict[str, str] = {}

    async def run(self) -> None:
        try:
            while self._interval_seconds:
                await asyncio.sleep(self._interval_seconds)
                await self.observe_all()
        finally:
            await self.scraper.close()

    async def observe_all(self) -> None:
        """Observes every healthy pod once, by its own metric and by each plugin."""
        pods = [health.pod for health in self._ledger().pods.values() if is_healthy(health.pod)]
        await self._scrape(pods)
        for plugin in self.plugins:
            for pod in pods:
                self._record(pod, await plugin.observe(pod))

    async def _scrape(self, pods: Iterable[Pod]) -> None:
        pods = tuple(pods)
        self.annotation_errors = {pod.metadata.uid: self.annotation_errors.get(pod.metadata.uid, "") for pod in pods}
        named = [(pod, metric) for pod in pods if (metric := self._metric_of(pod))]
        scraped = sorted(named, key=lambda each: each[0].metadata.uid)[:MAX_PODS]
        self.scraper.keep_only({pod.metadata.uid for pod, _ in scraped})
        for start in range(0, len(scraped), MAX_CONCURRENT):
            await asyncio.gather(*(self._scrape_pod(*each) for each in scraped[start : start + MAX_CONCURRENT]))

    def _metric_of(self, pod: Pod) -> RewardMetric | None:
        """Returns the metric that the pod names. Wrong annotations are logged once, and the pod is not scraped."""
        uid = pod.metadata.uid
        try:
            return parse_reward_metric(pod)
        except InvalidAnnotation as error:
            if self.annotation_errors[uid] != str(error):
                log.warning("agent does not scrape pod %s/%s: %s", pod.metadata.namespace, pod.metadata.name, error)
            self.annotation_errors[uid] = str(error)
            return None

    async def _scrape_pod(self, pod: Pod, metric: RewardMetric) -> None:
        cost = await self.scraper.scrape_cost(pod.metadata.uid, metric)
        if cost is not None:
            self._record(pod, {metric.quality: cost})

    def _record(self, pod: Pod, costs: Mapping[str, float]) -> None:
        for name, cost in costs.items():
            self._ledger().observe_quality(pod.metadata.uid, name, cost)
