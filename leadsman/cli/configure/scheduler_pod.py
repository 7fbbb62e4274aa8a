"""The edits of a kube-scheduler's pod: its --config, and the volume of the certificates. Pure."""

import re
from collections.abc import Iterator, Mapping
from ipaddress import ip_address
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from leadsman.cli.configure import ConfigureError, YamlPath, value_at
from leadsman.cli.configure.yaml_editing import YamlEdit

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


def edits(found: SchedulerPod, volume: Mapping[str, Any], folder: str, config: str, url: str) -> list[YamlEdit]:
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
