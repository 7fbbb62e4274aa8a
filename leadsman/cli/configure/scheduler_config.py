"""The edits of a KubeSchedulerConfiguration that make it ask the extender. Pure: data in, edits out."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from leadsman.cli.configure import ConfigureError, value_at
from leadsman.cli.configure.yaml_editing import YamlEdit

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


class ExtenderParameters(Struct, frozen=True):
    """One entry of `extenders`.

    url: https://….
    server_name: name in the extender's certificate, where it is not the URL's host.
    ca, certificate, key: paths as kube-scheduler sees them.
    timeout: a Go duration.
    managed: only pods that request telemetry/scheduling are sent.
    ignorable: pods bind unchecked while no extender answers; False: they wait.
    """

    url: str
    server_name: str
    ca: str
    certificate: str
    key: str
    weight: int = 5
    timeout: str = "500ms"
    managed: bool = False
    ignorable: bool = True


def is_scheduler_config(data: Any) -> bool:
    return bool(value_at(data, "kind") == "KubeSchedulerConfiguration")


def extender_entry(parameters: ExtenderParameters) -> dict[str, Any]:
    """Why these values: daemonset/scheduler/kube-scheduler.yaml."""
    tls = {"serverName": parameters.server_name} if parameters.server_name else {}
    tls |= {"caFile": parameters.ca, "certFile": parameters.certificate, "keyFile": parameters.key}
    managed = {"managedResources": [MANAGED_RESOURCE]} if parameters.managed else {}
    return {
        "urlPrefix": parameters.url,
        "filterVerb": "filter",
        "prioritizeVerb": "prioritize",
        "preemptVerb": "preempt",
        "weight": parameters.weight,
        "nodeCacheCapable": True,
        "ignorable": parameters.ignorable,
        "httpTimeout": parameters.timeout,
        "enableHTTPS": True,
        "tlsConfig": tls,
    } | managed


def edits(data: Any, parameters: ExtenderParameters) -> list[YamlEdit]:
    """Nothing, when it holds all that already. Refused when it is of a version that we do not write."""
    _check(data)
    ours = extender_entry(parameters)
    puts = [YamlEdit(("percentageOfNodesToScore",), 100)] if value_at(data, "percentageOfNodesToScore") != 100 else []
    for number, profile in enumerate(value_at(data, "profiles") or []):
        if value_at(profile, "percentageOfNodesToScore") not in (None, 100):
            puts.append(YamlEdit(("profiles", number, "percentageOfNodesToScore"), 100))
    present = value_at(data, "extenders") or []
    place = next((number for number, each in enumerate(present) if _is_ours(each, parameters)), len(present))
    if place == len(present) and "extenders" not in data:
        return [*puts, YamlEdit(("extenders",), [ours])]
    return puts if value_at(present, place) == ours else [*puts, YamlEdit(("extenders", place), ours)]


def new_config(flags: Mapping[str, str], parameters: ExtenderParameters) -> dict[str, Any]:
    """A configuration for a scheduler that had none. flags: its command line, without the dashes."""
    made: dict[str, Any] = {"apiVersion": f"{API_GROUP}/v1", "kind": "KubeSchedulerConfiguration"}
    for flag, (section, *field) in DEPRECATED_FLAGS.items():
        if flag in flags:
            value = _typed(flags[flag]) if flag != "kubeconfig" else flags[flag]
            made |= {section: {**made.get(section, {}), field[0]: value}} if field else {section: value}
    return made | {"percentageOfNodesToScore": 100, "extenders": [extender_entry(parameters)]}


def _check(data: Any) -> None:
    version = value_at(data, "apiVersion")
    if version == f"{API_GROUP}/v1":
        return
    if str(version).startswith(f"{API_GROUP}/"):
        raise ConfigureError(
            f"apiVersion: {version}; want {API_GROUP}/v1, which every kube-scheduler since 1.25 reads. Convert the "
            "file, with your plugins' arguments as the release notes say, check that the scheduler starts, and run "
            "this again"
        )
    raise ConfigureError(f"apiVersion: {version!r}; want {API_GROUP}/v1")


def _is_ours(present: Any, parameters: ExtenderParameters) -> bool:
    """Whether an earlier run wrote it: the same address, whatever the scheme, or the same CA."""
    place = str(value_at(present, "urlPrefix")).partition("://")[2].rstrip("/")
    return (
        place == parameters.url.partition("://")[2].rstrip("/")
        or value_at(present, "tlsConfig", "caFile") == parameters.ca
    )


def _typed(value: str) -> Any:
    """The value as YAML reads it: a number, a boolean, or the word itself."""
    if value in ("true", "false"):
        return value == "true"
    try:
        return int(value) if value.lstrip("-").isdecimal() else float(value)
    except ValueError:
        return value
