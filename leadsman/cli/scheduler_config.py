"""Makes the edits by which a KubeSchedulerConfiguration asks the extender, and finds what kube-scheduler would refuse.

Pure: data in, edits out. Another extender of our resource, such as Telemetry Aware Scheduling's, makes way for ours.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from leadsman.cli.yaml_editing import REMOVED, ConfigureError, YamlEdit, value_at

API_GROUP = "kubescheduler.config.k8s.io"

MANAGED_RESOURCE = {"name": "telemetry/scheduling", "ignoredByScheduler": True}

DEPRECATED_FLAGS = {
    "kubeconfig": ("clientConnection", "kubeconfig"),
    "kube-api-content-type": ("clientConnection", "contentType"),
    "kube-api-qps": ("clientConnection", "qps"),
    "kube-api-burst": ("clientConnection", "burst"),
    "profiling": ("enableProfiling",),
    "contention-profiling": ("enableContentionProfiling",),
}
"""Flags that kube-scheduler no longer reads once it has a --config → the fields that take their place. Those of leader
election still count (k8s.io/kubernetes cmd/kube-scheduler/app/options)."""


def is_scheduler_config(data: Any) -> bool:
    return bool(value_at(data, "kind") == "KubeSchedulerConfiguration")


def config_edits(data: Any, ours: Mapping[str, Any]) -> list[YamlEdit]:
    """Returns the edits, none where the data holds all that already. ours: our entry of `extenders`.

    Raises ConfigureError for what kube-scheduler would not start with afterwards, whoever wrote it.
    """
    puts = list(_to_v1(data))
    if value_at(data, "percentageOfNodesToScore") != 100:
        puts.append(YamlEdit(("percentageOfNodesToScore",), 100))
    for number, profile in enumerate(value_at(data, "profiles") or []):
        if value_at(profile, "percentageOfNodesToScore") not in (None, 100):
            puts.append(YamlEdit(("profiles", number, "percentageOfNodesToScore"), 100))
    present = list(value_at(data, "extenders") or [])
    place = _place(present, ours)
    _check_extenders([*present[:place], ours, *present[place + 1 :]])
    if place == len(present) and "extenders" not in data:
        return [*puts, YamlEdit(("extenders",), [ours])]
    return puts if value_at(present, place) == ours else [*puts, YamlEdit(("extenders", place), ours)]


def new_config(flags: Mapping[str, str], ours: Mapping[str, Any]) -> dict[str, Any]:
    """Makes a configuration for a scheduler that had none. flags: its command line, without the dashes."""
    made: dict[str, Any] = {"apiVersion": f"{API_GROUP}/v1", "kind": "KubeSchedulerConfiguration"}
    for flag, (section, *field) in DEPRECATED_FLAGS.items():
        if flag in flags:
            value = _typed(flags[flag]) if flag != "kubeconfig" else flags[flag]
            made |= {section: {**made.get(section, {}), field[0]: value}} if field else {section: value}
    return made | {"percentageOfNodesToScore": 100, "extenders": [ours]}


def _to_v1(data: Any) -> Iterator[YamlEdit]:
    """Yields the edits that turn v1beta2 and v1beta3 into v1, which every kube-scheduler since 1.25 reads.

    Two addresses, which had no effect, are all that v1 lacks.
    """
    version = str(value_at(data, "apiVersion"))
    if version == f"{API_GROUP}/v1":
        return
    if version not in (f"{API_GROUP}/v1beta2", f"{API_GROUP}/v1beta3"):
        raise ConfigureError(f"apiVersion: {version}; want {API_GROUP}/v1 (v1beta2 and v1beta3 are converted)")
    yield YamlEdit(("apiVersion",), f"{API_GROUP}/v1")
    for field in ("healthzBindAddress", "metricsBindAddress"):
        if field in data:
            yield YamlEdit((field,), REMOVED)
    for number, profile in enumerate(value_at(data, "profiles") or []):
        configured = value_at(profile, "pluginConfig") or []
        points = (value_at(profile, "plugins") or {}).values()
        named = [*configured, *(plugin for point in points for plugin in value_at(point, "enabled") or [])]
        if gone := sorted({str(value_at(each, "name")) for each in named} & PLUGINS_BEFORE_V1.keys()):
            raise ConfigureError(f"profiles.{number}: v1 has no plugin {gone[0]}; {PLUGINS_BEFORE_V1[gone[0]]}")
        arguments = (
            ("profiles", number, "pluginConfig", place, "args", "apiVersion") for place in range(len(configured))
        )
        yield from (YamlEdit(path, f"{API_GROUP}/v1") for path in arguments if value_at(data, *path) == version)


PLUGINS_BEFORE_V1 = {
    "SelectorSpread": "use PodTopologySpread",
    "NodePreferAvoidPods": "use taints of effect PreferNoSchedule",
    "NodeLabel": "use NodeAffinity",
    "ServiceAffinity": "use InterPodAffinity",
    "NodeResourcesLeastAllocated": "use NodeResourcesFit with the scoringStrategy LeastAllocated",
    "NodeResourcesMostAllocated": "use NodeResourcesFit with the scoringStrategy MostAllocated",
    "RequestedToCapacityRatio": "use NodeResourcesFit with the scoringStrategy RequestedToCapacityRatio",
}
"""Maps each plugin that v1beta2 or v1beta3 still knew to what takes its place (kubernetes.io, "Scheduler
Configuration")."""


def _place(present: Sequence[Any], ours: Mapping[str, Any]) -> int:
    """Says where our entry goes: to that of an earlier run, else to that which manages our resource, else last."""
    for number, each in enumerate(present):
        if _is_ours(each, ours):
            return number
    resource = MANAGED_RESOURCE["name"]
    for number, each in enumerate(present):
        managed = _managed(each)
        if resource not in managed:
            continue
        who = f"extenders.{number} ({value_at(each, 'urlPrefix')})"
        if "managedResources" not in ours:
            raise ConfigureError(
                f"{who} manages {resource}: pass --managed, so that ours takes its place; pods that request the "
                "resource would wait without an extender that manages it"
            )
        if others := [name for name in managed if name != resource]:
            raise ConfigureError(f"{who} manages {', '.join(others)} too; give that an entry of its own first")
        return number
    return len(present)


def _check_extenders(extenders: Sequence[Any]) -> None:
    """Raises ConfigureError for what stops kube-scheduler (k8s.io/kubernetes pkg/scheduler/apis/config/validation)."""
    binders = [f"extenders.{number}" for number, each in enumerate(extenders) if value_at(each, "bindVerb")]
    if len(binders) > 1:
        raise ConfigureError(f"two extenders bind pods: {', '.join(binders)}; leave bindVerb to one of them")
    owner: dict[str, int] = {}
    for number, each in enumerate(extenders):
        weight = value_at(each, "weight")
        if value_at(each, "prioritizeVerb") and not (isinstance(weight, int) and weight > 0):
            raise ConfigureError(f"extenders.{number}.weight: got {weight}; want 1 or more beside prioritizeVerb")
        for name in _managed(each):
            if not re.fullmatch(_EXTENDED_RESOURCE, name):
                raise ConfigureError(f"extenders.{number}.managedResources: got {name}; want DOMAIN/NAME")
            if name in owner:
                raise ConfigureError(
                    f"extenders.{number} manages {name}, which extenders.{owner[name]} manages too; remove it from one"
                )
            owner[name] = number


_EXTENDED_RESOURCE = r"(?!.*kubernetes\.io/)(?!requests\.)[a-z0-9.-]+/[A-Za-z0-9._-]+"


def _managed(extender: Any) -> list[str]:
    return [str(value_at(resource, "name")) for resource in value_at(extender, "managedResources") or []]


def _is_ours(present: Any, ours: Mapping[str, Any]) -> bool:
    """Tells whether an earlier run wrote it: the same address, whatever the scheme, or the same CA."""
    addresses = [str(value_at(each, "urlPrefix")).partition("://")[2].rstrip("/") for each in (present, ours)]
    return addresses[0] == addresses[1] or value_at(present, "tlsConfig", "caFile") == ours["tlsConfig"]["caFile"]


def _typed(value: str) -> Any:
    """Returns the value as YAML reads it: a number, a boolean, or the word itself."""
    if value in ("true", "false"):
        return value == "true"
    try:
        return int(value) if value.lstrip("-").isdecimal() else float(value)
    except ValueError:
        return value
