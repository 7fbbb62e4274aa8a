"""The changes that make a kube-scheduler ask the extender, file by file: its configuration, and its pod's --config and
volume of the certificates. Pure: files are read through `read`.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from ipaddress import ip_address
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import urlsplit

import yaml
from msgspec import Struct

from leadsman.cli import scheduler_config
from leadsman.cli.yaml_editing import ConfigureError, YamlEdit, YamlPath, apply_edits, load_documents, value_at

VOLUME_NAME = "leadsman"

POD_SPEC_PATHS: Mapping[str, YamlPath] = {
    "Pod": ("spec",),
    "Deployment": ("spec", "template", "spec"),
    "DaemonSet": ("spec", "template", "spec"),
    "StatefulSet": ("spec", "template", "spec"),
}


OLDEST_MINOR = 25
"""Kubernetes 1.25 is the first whose kube-scheduler reads the configuration's v1, which is what we write."""

_IMAGE_VERSION = re.compile(r"(?:^|/)kube-scheduler(?:-[a-z0-9]+)?:v?[01]\.(\d+)\.\d+[^/]*$", re.ASCII)
"""The minor in the tag of an image of that very name; scheduler-plugins number theirs 0.N for Kubernetes 1.N. Any other
image has versions of its own, which say nothing."""


class SchedulerPod(Struct, frozen=True):
    """A kube-scheduler found in a document.

    path: leads to its pod spec, `spec`.
    container: its position in the pod.
    flags_field: "command" or "args", the list that holds its flags.
    flag_values: flag without dashes → value.
    """

    path: YamlPath
    spec: Mapping[str, Any]
    container: int
    flags_field: str
    flag_values: Mapping[str, str]

    @property
    def config(self) -> str:
        """The configuration file that it reads; "" when it has none."""
        return self.flag_values.get("config", "")

    def config_source(self) -> tuple[str, Mapping[str, Any]]:
        """The path of `config` within the volume it comes from, and that volume; {} for the container's own root."""
        mounts = value_at(self.spec, "containers", self.container, "volumeMounts") or []
        inside = [m for m in mounts if PurePosixPath(self.config).is_relative_to(m["mountPath"])]
        if not inside:
            return self.config, {}
        mount = max(inside, key=lambda m: len(m["mountPath"]))
        rest = PurePosixPath(self.config).relative_to(mount["mountPath"])
        volume = next((v for v in value_at(self.spec, "volumes") or [] if v["name"] == mount["name"]), None)
        if volume is None:
            raise ConfigureError(f"volumeMounts: {mount['name']}: the pod has no volume of that name")
        return str(PurePosixPath(mount.get("subPath", "")) / rest), volume


def find_scheduler(data: Any) -> SchedulerPod | None:
    """The kube-scheduler in a document; None when the document holds none."""
    path = POD_SPEC_PATHS.get(value_at(data, "kind") or "")
    spec = value_at(data, *path) if path else None
    for number, container in enumerate(value_at(spec, "containers") or []):
        words = [*(value_at(container, "command") or []), *(value_at(container, "args") or [])]
        if any("kube-scheduler" in str(word) for word in [*words, value_at(container, "image")]):
            assert path
            return _scheduler(path, spec, number, container)
    return None


def pod_edits(found: SchedulerPod, volume: Mapping[str, Any], folder: str, config: str, url: str) -> list[YamlEdit]:
    """The edits of its pod.

    volume: holds the certificates, and is mounted at `folder`.
    config: its new configuration; "": it keeps its own.
    """
    container = (*found.path, "containers", found.container)
    mount = {"name": VOLUME_NAME, "mountPath": folder, "readOnly": True}
    puts = (
        []
        if not config
        else [YamlEdit((*container, found.flags_field, _length(found, found.flags_field)), f"--config={config}")]
    )
    puts += _put_named_item(
        (*container, "volumeMounts"), value_at(found.spec, "containers", found.container, "volumeMounts"), mount
    )
    puts += _put_named_item((*found.path, "volumes"), value_at(found.spec, "volumes"), {"name": VOLUME_NAME, **volume})
    if (
        value_at(found.spec, "hostNetwork")
        and has_dns_host(url)
        and value_at(found.spec, "dnsPolicy") != HOST_NETWORK_DNS_POLICY
    ):
        puts.append(YamlEdit((*found.path, "dnsPolicy"), HOST_NETWORK_DNS_POLICY))
    return puts


HOST_NETWORK_DNS_POLICY = "ClusterFirstWithHostNet"
"""On the host network, nothing else makes a Service's name resolve."""


def _scheduler(path: YamlPath, spec: Any, number: int, container: Any) -> SchedulerPod:
    lists = {name: [str(word) for word in value_at(container, name) or []] for name in ("command", "args")}
    if any(word in ("-c", "-ec", "-lc") for words in lists.values() for word in words):
        raise ConfigureError(f"containers.{number}: a shell starts kube-scheduler; give the flags as a list")
    flags = "args" if lists["args"] or not lists["command"] else "command"
    _check_image(str(value_at(container, "image") or ""), number)
    return SchedulerPod(path, spec, number, flags, dict(_flags([*lists["command"], *lists["args"]])))


def _check_image(image: str, number: int) -> None:
    version = _IMAGE_VERSION.search(image.partition("@")[0])
    if version and int(version[1]) < OLDEST_MINOR:
        raise ConfigureError(
            f"containers.{number}.image: {image}: kube-scheduler before 1.{OLDEST_MINOR} cannot read the configuration "
            f"that we write and would not start; upgrade the cluster to 1.{OLDEST_MINOR} or later first"
        )


def _flags(words: list[str]) -> Iterator[tuple[str, str]]:
    """--flag=value, --flag value, --flag (true)."""
    for number, word in enumerate(words):
        name, equals, value = word.lstrip("-").partition("=")
        if not word.startswith("-"):
            continue
        following = words[number + 1] if number + 1 < len(words) else "-"
        yield name, value if equals else "true" if following.startswith("-") else following


def _length(found: SchedulerPod, name: str) -> int:
    return len(value_at(found.spec, "containers", found.container, name) or [])


def _put_named_item(path: YamlPath, present: Any, item: Mapping[str, Any]) -> list[YamlEdit]:
    """Puts the item into the list, in place of the one of its name; nothing when the list holds it already."""
    if present is None:
        return [YamlEdit(path, [dict(item)])]
    place = next((number for number, each in enumerate(present) if each["name"] == item["name"]), len(present))
    return [] if value_at(present, place) == item else [YamlEdit((*path, place), dict(item))]


def has_dns_host(url: str) -> bool:
    try:
        ip_address(urlsplit(url).hostname or "")
    except ValueError:
        return True
    return False


SECRET_NAME, SECRET_FOLDER = "leadsman-scheduler-tls", "/etc/leadsman-scheduler"
"""As `leadsman certs secrets` names it, and where a pod that has it mounts it."""

ReadFile = Callable[[str], str | None]
"""A file's text; None when there is none."""


class ConfigureSettings(Struct, frozen=True):
    """What the scheduler is configured with.

    url: https://….
    server_name: name in the extender's certificate, where it is not the URL's host.
    folder: holds ca.crt, client.crt and client.key, on the scheduler's machine.
    config: file to write for a scheduler that has none; inside `folder`, so that one mount shows both.
    timeout: a Go duration.
    managed: only pods that request telemetry/scheduling are sent.
    ignorable: pods bind unchecked while no extender answers; False: they wait.
    """

    url: str
    server_name: str
    folder: str = "/etc/kubernetes/leadsman"
    config: str = "/etc/kubernetes/leadsman/scheduler.yaml"
    weight: int = 5
    timeout: str = "500ms"
    managed: bool = False
    ignorable: bool = True


class FileChange(Struct, frozen=True):
    """A file's text before and after. before None: the file is new."""

    path: str
    before: str | None
    after: str


def plan_changes(path: str, text: str, read: ReadFile, settings: ConfigureSettings) -> list[FileChange]:
    """The changes, in the order to write them. ConfigureError for a file that cannot be changed safely."""
    found = list(_planned(path, text, read, settings))
    if not found:
        raise ConfigureError(
            f"{path}: contains neither a kube-scheduler's pod nor a KubeSchedulerConfiguration of "
            f"{scheduler_config.API_GROUP}"
        )
    return [change for change in found if change.before != change.after]


def _planned(path: str, text: str, read: ReadFile, settings: ConfigureSettings) -> Iterator[FileChange]:
    after, known = text, False
    for number, data in enumerate(load_documents(text)):
        edits = []
        if scheduler_config.is_scheduler_config(data):
            edits += _with_location(path, scheduler_config.config_edits, data, _on_host(settings))
            known = True
        for key, inner in _configurations(data):
            within = (scheduler_config.config_edits, load_documents(inner)[0], _in_pod(settings))
            new = apply_edits(inner, 0, _with_location(f"{path}: {key}", *within))
            edits += [YamlEdit(("data", key), new)] if new != inner else []
            known = True
        if scheduler := _with_location(path, find_scheduler, data):
            own, of_pod = _for_pod(scheduler, text, read, settings)
            yield from own
            edits += of_pod
            known = True
        after = apply_edits(after, number, edits)
    if known:
        yield FileChange(path, text, after)


def _for_pod(
    found: SchedulerPod, text: str, read: ReadFile, settings: ConfigureSettings
) -> tuple[list[FileChange], list[YamlEdit]]:
    """The scheduler's configuration, when it is a file of its own, and what its pod must hold."""
    host = {"hostPath": {"path": settings.folder, "type": "Directory"}}
    if not found.config:
        puts = pod_edits(found, host, settings.folder, settings.config, settings.url)
        return [_created(found, read, settings)], puts
    rest, volume = found.config_source()
    if "configMap" in volume:
        _check_config_map(volume["configMap"], text)
        secret = {"secret": {"secretName": SECRET_NAME}}
        return [], pod_edits(found, secret, SECRET_FOLDER, "", settings.url)
    if "hostPath" not in volume:
        raise ConfigureError(
            f"--config={found.config}: comes from neither a hostPath nor a ConfigMap; put it into one of them"
        )
    own = _edited(str(PurePosixPath(volume["hostPath"]["path"]) / rest), read, settings)
    return [own], pod_edits(found, host, settings.folder, "", settings.url)


def _created(found: SchedulerPod, read: ReadFile, settings: ConfigureSettings) -> FileChange:
    if found.path != POD_SPEC_PATHS["Pod"]:
        raise ConfigureError("kube-scheduler has no --config; give it one from a ConfigMap first, in the same file")
    made = scheduler_config.new_config(found.flag_values, _on_host(settings))
    text, there = NEW_CONFIG_HEADER + yaml.safe_dump(made, sort_keys=False, width=10_000), read(settings.config)
    if there not in (None, text):
        raise ConfigureError(f"{settings.config} exists already; name another file with --config")
    return FileChange(settings.config, there, text)


NEW_CONFIG_HEADER = (
    "# Made by `leadsman configure-scheduler` from kube-scheduler's flags, which it no longer reads beside --config.\n"
)


def _edited(path: str, read: ReadFile, settings: ConfigureSettings) -> FileChange:
    text = read(path)
    if text is None:
        raise ConfigureError(f"{path}: kube-scheduler's configuration is not on this machine; run this where it is")
    if not scheduler_config.is_scheduler_config((load_documents(text) or [None])[0]):
        raise ConfigureError(f"{path}: contains no KubeSchedulerConfiguration")
    puts = _with_location(path, scheduler_config.config_edits, load_documents(text)[0], _on_host(settings))
    return FileChange(path, text, apply_edits(text, 0, puts))


def _configurations(data: Any) -> Iterator[tuple[str, str]]:
    """The scheduler configurations in a ConfigMap: key and text."""
    values: Mapping[str, Any] = (value_at(data, "data") or {}) if value_at(data, "kind") == "ConfigMap" else {}
    for key, inner in values.items():
        if "KubeSchedulerConfiguration" in str(inner):
            yield key, inner


def _check_config_map(source: Mapping[str, Any], text: str) -> None:
    names = [value_at(data, "metadata", "name") for data in load_documents(text) if any(_configurations(data))]
    if source["name"] not in names:
        here = f"kubectl get configmap {source['name']} -o yaml"
        raise ConfigureError(
            f"its configuration is in ConfigMap {source['name']}; put that into the same file ({here})"
        )


def _on_host(settings: ConfigureSettings) -> dict[str, Any]:
    folder = settings.folder
    return extender_entry(settings, f"{folder}/ca.crt", f"{folder}/client.crt", f"{folder}/client.key")


def _in_pod(settings: ConfigureSettings) -> dict[str, Any]:
    folder = SECRET_FOLDER
    return extender_entry(settings, f"{folder}/ca.crt", f"{folder}/tls.crt", f"{folder}/tls.key")


def extender_entry(settings: ConfigureSettings, ca: str, certificate: str, key: str) -> dict[str, Any]:
    """Our entry of `extenders`; why these values: daemonset/scheduler/kube-scheduler.yaml.

    ca, certificate, key: paths as kube-scheduler sees them.
    """
    tls = {"serverName": settings.server_name} if settings.server_name else {}
    managed = {"managedResources": [scheduler_config.MANAGED_RESOURCE]} if settings.managed else {}
    return {
        "urlPrefix": settings.url,
        "filterVerb": "filter",
        "prioritizeVerb": "prioritize",
        "preemptVerb": "preempt",
        "weight": settings.weight,
        "nodeCacheCapable": True,
        "ignorable": settings.ignorable,
        "httpTimeout": settings.timeout,
        "enableHTTPS": True,
        "tlsConfig": {**tls, "caFile": ca, "certFile": certificate, "keyFile": key},
    } | managed


def _with_location(place: str, step: Callable[..., Any], *arguments: Any) -> Any:
    """Returns what the step returns; its ConfigureError says where."""
    try:
        return step(*arguments)
    except ConfigureError as error:
        raise ConfigureError(f"{place}: {error}") from error
