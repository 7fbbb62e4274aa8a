"""Makes the reference of metrics from the code: from the calls that make a family where they name it, from the families
themselves where the code makes them from a table. tests/whole compares it with what running processes show."""

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

from msgspec import Struct
from prometheus_client import Metric

import agent.hardware
from agent.hardware import monitor
from agent.hardware.reading import HardwareReading
from agent.rtt import prober as rtt_metrics
from agent.rtt.peer_stats import ProbeCounts
from leadsman.plugin import MetricFamily
from website.markdown import code, table

ROOT = Path(__file__).parents[1]

PROCESSES = {
    "agent": ("agent",),
    "extender": ("extender",),
    "extender/plugins": ("extender", "controller"),
    "controller": ("controller",),
    "leadsman/sources": ("extender", "controller"),
    "leadsman/etcd": ("etcd",),
    "leadsman/runtime/server_tls.py": ("extender",),
    "leadsman/runtime/scrape.py": ("agent", "extender", "controller", "etcd"),
}
"""Room → the processes that show what its code counts; the longest that holds a file is its room. A test wants every
family below one of them."""

_KINDS = {
    "GaugeMetricFamily": "gauge",
    "Gauge": "gauge",
    "gauge": "gauge",
    "CounterMetricFamily": "counter",
    "Counter": "counter",
    "counter": "counter",
    "HistogramMetricFamily": "histogram",
    "Histogram": "histogram",
    "SummaryMetricFamily": "summary",
}
_SERIES = {"histogram": ("_bucket", "_count", "_sum"), "summary": ("_count", "_sum")}
_UNITS = ("seconds", "bytes", "ratio", "celsius", "watt", "watts", "volts", "rpm")

_INTRODUCTION = (
    "Made from the code. Agents show theirs at `:9102/metrics`, extenders at `:9002`, controllers at `:9003`,",
    "etcd's gateways at `:9005`.",
    "A family appears once the part that it counts is switched on. Each process has",
    "the standard `process_*` and `python_*` too, and agents the `leadsman_custom_*` of [plugins](../plugins.md).",
)


class Family(Struct, frozen=True, order=True):
    """One family of metrics, and which processes show it.

    name: as Prometheus stores it: a counter's ends in _total.
    kind: gauge, counter, histogram or summary.
    """

    name: str
    kind: str
    help: str
    labels: tuple[str, ...]
    processes: tuple[str, ...]

    @property
    def unit(self) -> str:
        """Returns the unit by the family's name; "" where it counts."""
        words = self.name.removesuffix("_total").split("_")
        if words[-2:] == ["timestamp", "seconds"]:
            return "Unix seconds"
        return words[-1] if words[-1] in _UNITS else ""

    @property
    def series(self) -> tuple[str, ...]:
        """Returns the names that a query may use."""
        return tuple(self.name + end for end in _SERIES.get(self.kind, ("",)))


def metric_families() -> list[Family]:
    """Returns every family that a process of ours can show, by name."""
    return sorted({*_written_out(), *_of_agent(_made_from_tables())})


def metrics_page() -> str:
    lines = ["# Metrics", "", *_INTRODUCTION, ""]
    families = metric_families()
    for process in ("agent", "extender", "controller", "etcd"):
        shown = [_cells(each) for each in families if process in each.processes]
        lines += [f"## {process.title()}", "", *table(("metric", "type", "unit", "labels", "says"), shown)]
    return "\n".join(lines)


def _cells(family: Family) -> Sequence[str]:
    labels = ", ".join(map(code, family.labels))
    return code(family.name), family.kind, family.unit, labels, family.help


def _written_out() -> Iterator[Family]:
    for room, processes in PROCESSES.items():
        for path in sorted((ROOT / room).rglob("*.py")) if (ROOT / room).is_dir() else [ROOT / room]:
            if _room(path) != room:
                continue
            tree = ast.parse(path.read_text())
            assigned = sorted(_assigned(tree))
            for node in ast.walk(tree):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _KINDS:
                    constants = {name: value for line, name, value in assigned if line < node.lineno}
                    yield from _family_of_call(node, node.func.id, constants, processes)


def _room(path: Path) -> str:
    return max((room for room in PROCESSES if path.is_relative_to(ROOT / room)), key=len)


def _assigned(tree: ast.Module) -> Iterator[tuple[int, str, Any]]:
    """Yields the line, the name and the value of each literal that is given a name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            with suppress(ValueError):
                yield node.lineno, node.targets[0].id, ast.literal_eval(node.value)


def _family_of_call(
    call: ast.Call, maker: str, constants: Mapping[str, Any], processes: tuple[str, ...]
) -> Iterator[Family]:
    """Nothing where the name is no literal: a table makes that one. `gauge` and `counter` of the controller take labels
    after the values."""
    given = [constants.get(each.id) if isinstance(each, ast.Name) else each for each in call.args[:2]]
    texts = [text for each in given if isinstance(text := getattr(each, "value", each), str)]
    if len(texts) < 2 or (maker.islower() and not texts[0].startswith("leadsman_")):
        return
    named = [each.value for each in call.keywords if each.arg in ("labels", "labelnames")]
    in_place: list[ast.expr] = [each for each in call.args[2:3] if isinstance(each, ast.List | ast.Tuple)]
    if maker.islower():
        in_place.append(ast.Tuple(call.args[3:]))
    labels: Sequence[str] = ()
    for listed in (*named, *in_place):
        labels = constants[listed.id] if isinstance(listed, ast.Name) else ast.literal_eval(listed)
    name, text = texts
    kind = _KINDS[maker]
    yield Family(_stored_name(name, kind), kind, text, tuple(labels), processes)


def _made_from_tables() -> Iterator[Metric]:
    yield from rtt_metrics.window_families({})
    yield from rtt_metrics.count_families({}, ProbeCounts())
    yield from monitor.hardware_metrics(HardwareReading(0.0, {}))
    for module in iter_modules(agent.hardware.__path__, "agent.hardware."):
        for family in _families_within(vars(import_module(module.name)).values()):
            yield monitor.metric_of(family, [])


def _families_within(values: Iterable[Any]) -> Iterator[MetricFamily]:
    for value in values:
        if isinstance(value, MetricFamily):
            yield value
        elif isinstance(value, tuple | list):
            yield from _families_within(value)
        elif isinstance(value, dict):
            yield from _families_within(value.values())


def _of_agent(metrics: Iterable[Metric]) -> Iterator[Family]:
    for each in metrics:
        labels = tuple(getattr(each, "_labelnames", ()))
        yield Family(_stored_name(each.name, each.type), each.type, each.documentation, labels, PROCESSES["agent"])


def _stored_name(name: str, kind: str) -> str:
    return name.removesuffix("_total") + "_total" if kind == "counter" else name
