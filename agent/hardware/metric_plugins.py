"""Metrics of other packages, as collectors: named so that they are nobody else's, and bounded.

A gauge `used_ratio` of the plugin `files` is `leadsman_custom_files_used_ratio` on /metrics. A gauge without labels is
reported, too, so that decisions may read `node.hardware["custom_files_used_ratio"]`.
"""

import itertools
import logging
import math
import re
from collections.abc import Collection, Iterator, Sequence

from agent.hardware.kernel_files import CollectFunction
from agent.hardware.summary import CUSTOM_PREFIX
from leadsman.plugin import METRICS_GROUP, HostRoots, MetricFamily, Metrics, Sample, SensorFault
from leadsman.plugin_loading import BadPlugin, load_plugin

MAX_SERIES = 256
"""One plugin may have this many series."""

MAX_LABEL_VALUE = 128

_PLUGIN_NAME = re.compile(r"[a-z][a-z0-9]{0,31}")
"""A plugin's name has no _, so that `custom_<plugin>_<metric>` names one plugin's metric only."""

_METRIC_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
_LABEL_NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")

log = logging.getLogger(__name__)


class MetricPlugin:
    """Collects a plugin's metrics. BadPlugin, when called, for what cannot be shown."""

    def __init__(self, name: str, plugin: Metrics) -> None:
        self._name, self._plugin = name, plugin

    def __call__(self, roots: HostRoots) -> Sequence[Sample | SensorFault]:
        items = list(itertools.islice(self._plugin.collect(roots), MAX_SERIES + 1))
        if len(items) > MAX_SERIES:
            raise BadPlugin(f"more than {MAX_SERIES} samples; give fewer label values")
        samples = [item if isinstance(item, SensorFault) else self._named(item) for item in items]
        _check_together([sample for sample in samples if isinstance(sample, Sample)])
        return samples

    def _named(self, sample: Sample) -> Sample:
        if not isinstance(sample, Sample):
            raise BadPlugin(f"it gave a {type(sample).__name__}; must be a Sample or SensorFault of leadsman.plugin")
        family = sample.family
        for name, allowed in ((family.name, _METRIC_NAME), *((label, _LABEL_NAME) for label in family.labels)):
            if not allowed.fullmatch(name):
                raise BadPlugin(f"the name {name[:80]!r} must be {allowed.pattern}")
        if family.kind not in ("gauge", "counter"):
            raise BadPlugin(f"{family.name} is a {family.kind!r}; must be a gauge or counter")
        if len(sample.labels) != len(family.labels):
            raise BadPlugin(
                f"{family.name} has {len(family.labels)} labels, a sample of it {len(sample.labels)} values"
            )
        value = float(sample.value)
        if not math.isfinite(value):
            raise BadPlugin(f"{family.name} is {value}; leave out what is not known")
        full = MetricFamily(
            f"{CUSTOM_PREFIX}{self._name}_{family.name}", family.kind, str(family.help), tuple(family.labels)
        )
        return full(value, *(str(label)[:MAX_LABEL_VALUE] for label in sample.labels))


def _check_together(samples: Sequence[Sample]) -> None:
    """Checks that a name has one description, and that no series is there twice: Prometheus would take nothing of the
    page."""
    families, series = dict[str, MetricFamily](), set[tuple[str, tuple[str, ...]]]()
    for sample in samples:
        name, base = sample.family.name, sample.family.name.removesuffix("_total")
        # On the page a counter has both names: with _total, and in OpenMetrics without.
        shown = (base, f"{base}_total") if sample.family.kind == "counter" else (name,)
        if any(families.setdefault(each, sample.family) != sample.family for each in shown):
            raise BadPlugin(f"{name} has two descriptions; a metric has one kind, help and list of labels")
        if (name, sample.labels) in series:
            raise BadPlugin(f"{name}{sample.labels} is there twice")
        series.add((name, sample.labels))


def metric_plugins(names: Collection[str]) -> dict[str, CollectFunction]:
    """Makes a collector of each of these plugins. One that cannot be loaded is logged, and fails each time."""
    return {f"{CUSTOM_PREFIX}{name}": _collector(name) for name in names}


def _collector(name: str) -> CollectFunction:
    try:
        if not _PLUGIN_NAME.fullmatch(name):
            raise BadPlugin(f"the name {name!r} of a plugin of {METRICS_GROUP} must be {_PLUGIN_NAME.pattern}")
        return MetricPlugin(name, load_plugin(METRICS_GROUP, name))
    except Exception as error:  # A stranger's code: whatever it raises must not end the agent.
        problem = f"cannot be loaded: {type(error).__name__}: {error}"
        log.error("metric plugin %s %s", name, problem)

        def fail(_: HostRoots) -> Iterator[Sample]:
            raise BadPlugin(problem)

        return fail
