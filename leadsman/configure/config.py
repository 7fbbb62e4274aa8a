"""What a KubeSchedulerConfiguration must hold so that our extender is asked. Pure: data in, edits out."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from leadsman.configure import Refused, at
from leadsman.configure.text import Put

GROUP = "kubescheduler.config.k8s.io"

MANAGED = {"name": "telemetry/scheduling", "ignoredByScheduler": True}

DEPRECATED = {
    "kubeconfig": ("clientConnection", "kubeconfig"),
    "kube-api-content-type": ("clientConnection", "contentType"),
    "kube-api-qps": ("clientConnection", "qps"),
    "kube-api-burst": ("clientConnection", "burst"),
    "profiling": ("enableProfiling",),
    "contention-profiling": ("enableContentionProfiling",),
}
"""Flags that kube-scheduler no longer reads once it has a --config → the fields that take their place. Those of leader
election still count (k8s.io/kubernetes cmd/kube-scheduler/app/options)."""


class Wanted(Struct, frozen=True):
    """url: https://…. server_name: what the extender's certificate says, where it is not the URL's host.

    ca, certificate, key: paths as kube-scheduler sees them. managed: only pods that ask for telemetry/scheduling are
    sent. timeout: a Go duration.
    """

    url: str
    server_name: str
    ca: str
    certificate: str
    key: str
    weight: int = 5
    timeout: str = "500ms"
    managed: bool = False


def is_configuration(data: Any) -> bool:
    return bool(at(data, "kind") == "KubeSchedulerConfiguration")


def extender(wanted: Wanted) -> dict[str, Any]:
    """Why these values: daemonset/scheduler/kube-scheduler.yaml."""
    tls = {"serverName": wanted.server_name} if wanted.server_name else {}
    tls |= {"caFile": wanted.ca, "certFile": wanted.certificate, "keyFile": wanted.key}
    managed = {"managedResources": [MANAGED]} if wanted.managed else {}
    return {
        "urlPrefix": wanted.url,
        "filterVerb": "filter",
        "prioritizeVerb": "prioritize",
        "preemptVerb": "preempt",
        "weight": wanted.weight,
        "nodeCacheCapable": True,
        "ignorable": True,
        "httpTimeout": wanted.timeout,
        "enableHTTPS": True,
        "tlsConfig": tls,
    } | managed


def edits(data: Any, wanted: Wanted) -> list[Put]:
    """Nothing, when it holds all that already. Refused when it is of a version that we do not write."""
    _check(data)
    ours = extender(wanted)
    puts = [Put(("percentageOfNodesToScore",), 100)] if at(data, "percentageOfNodesToScore") != 100 else []
    for number, profile in enumerate(at(data, "profiles") or []):
        if at(profile, "percentageOfNodesToScore") not in (None, 100):
            puts.append(Put(("profiles", number, "percentageOfNodesToScore"), 100))
    present = at(data, "extenders") or []
    place = next((number for number, each in enumerate(present) if _ours(each, wanted)), len(present))
    if place == len(present) and "extenders" not in data:
        return [*puts, Put(("extenders",), [ours])]
    return puts if at(present, place) == ours else [*puts, Put(("extenders", place), ours)]


def created(flags: Mapping[str, str], wanted: Wanted) -> dict[str, Any]:
    """A configuration for a scheduler that had none. flags: its command line, without the dashes."""
    made: dict[str, Any] = {"apiVersion": f"{GROUP}/v1", "kind": "KubeSchedulerConfiguration"}
    for flag, (section, *field) in DEPRECATED.items():
        if flag in flags:
            value = _typed(flags[flag]) if flag != "kubeconfig" else flags[flag]
            made |= {section: {**made.get(section, {}), field[0]: value}} if field else {section: value}
    return made | {"percentageOfNodesToScore": 100, "extenders": [extender(wanted)]}


def _check(data: Any) -> None:
    version = at(data, "apiVersion")
    if version == f"{GROUP}/v1":
        return
    if str(version).startswith(f"{GROUP}/"):
        raise Refused(
            f"apiVersion: {version}; want {GROUP}/v1, which every kube-scheduler since 1.25 reads. Raise it first, with"
            " your plugins' arguments as its release notes say, see that the scheduler starts, then come back"
        )
    raise Refused(f"apiVersion: {version!r}; want {GROUP}/v1")


def _ours(present: Any, wanted: Wanted) -> bool:
    """Of an earlier run: the same place, whatever the scheme, or the same CA of ours."""
    place = str(at(present, "urlPrefix")).partition("://")[2].rstrip("/")
    return place == wanted.url.partition("://")[2].rstrip("/") or at(present, "tlsConfig", "caFile") == wanted.ca


def _typed(value: str) -> Any:
    """As YAML reads it: a number, a truth, or the word itself."""
    if value in ("true", "false"):
        return value == "true"
    try:
        return int(value) if value.lstrip("-").isdecimal() else float(value)
    except ValueError:
        return value
