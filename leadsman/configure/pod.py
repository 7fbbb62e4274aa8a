"""What a kube-scheduler's pod must hold: where it reads its configuration, and our certificates. Pure."""

from collections.abc import Iterator, Mapping
from ipaddress import ip_address
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from leadsman.configure import Path, Refused, at
from leadsman.configure.text import Put

VOLUME = "leadsman"

POD_SPECS: Mapping[str, Path] = {
    "Pod": ("spec",),
    "Deployment": ("spec", "template", "spec"),
    "DaemonSet": ("spec", "template", "spec"),
    "StatefulSet": ("spec", "template", "spec"),
}


class Scheduler(Struct, frozen=True):
    """A kube-scheduler found in a document. path: to its pod spec. container: its position. flags: "command" or "args",
    the list that holds them; given: flag without dashes → value."""

    path: Path
    spec: Mapping[str, Any]
    container: int
    flags: str
    given: Mapping[str, str]

    @property
    def config(self) -> str:
        """The file it reads; "" when it has none."""
        return self.given.get("config", "")

    def source(self) -> tuple[str, Mapping[str, Any]]:
        """What `config` is there, relative to the volume it comes from, and that volume; {} for the root itself."""
        mounts = at(self.spec, "containers", self.container, "volumeMounts") or []
        inside = [m for m in mounts if PurePosixPath(self.config).is_relative_to(m["mountPath"])]
        if not inside:
            return self.config, {}
        mount = max(inside, key=lambda m: len(m["mountPath"]))
        rest = PurePosixPath(self.config).relative_to(mount["mountPath"])
        volume = next((v for v in at(self.spec, "volumes") or [] if v["name"] == mount["name"]), None)
        if volume is None:
            raise Refused(f"volumeMounts: {mount['name']}: no volume of that name")
        return str(PurePosixPath(mount.get("subPath", "")) / rest), volume


def find(data: Any) -> Scheduler | None:
    """The kube-scheduler in a document; None when it holds no pod, or another one."""
    path = POD_SPECS.get(at(data, "kind") or "")
    spec = at(data, *path) if path else None
    for number, container in enumerate(at(spec, "containers") or []):
        words = [*(at(container, "command") or []), *(at(container, "args") or [])]
        if any("kube-scheduler" in str(word) for word in [*words, at(container, "image")]):
            assert path
            return _scheduler(path, spec, number, container)
    return None


def edits(found: Scheduler, volume: Mapping[str, Any], folder: str, config: str, url: str) -> list[Put]:
    """volume: what holds the certificates, mounted at `folder`. config: its new configuration; "": it keeps its own."""
    container = (*found.path, "containers", found.container)
    mount = {"name": VOLUME, "mountPath": folder, "readOnly": True}
    puts = [] if not config else [Put((*container, found.flags, _length(found, found.flags)), f"--config={config}")]
    puts += _listed((*container, "volumeMounts"), at(found.spec, "containers", found.container, "volumeMounts"), mount)
    puts += _listed((*found.path, "volumes"), at(found.spec, "volumes"), {"name": VOLUME, **volume})
    if at(found.spec, "hostNetwork") and is_name(url) and at(found.spec, "dnsPolicy") != HOST_DNS:
        puts.append(Put((*found.path, "dnsPolicy"), HOST_DNS))
    return puts


HOST_DNS = "ClusterFirstWithHostNet"
"""On the host network, nothing else makes a Service's name resolve."""


def _scheduler(path: Path, spec: Any, number: int, container: Any) -> Scheduler:
    lists = {name: [str(word) for word in at(container, name) or []] for name in ("command", "args")}
    if any(word in ("-c", "-ec", "-lc") for words in lists.values() for word in words):
        raise Refused(f"containers.{number}: a shell starts kube-scheduler; give its flags as a list")
    flags = "args" if lists["args"] or not lists["command"] else "command"
    return Scheduler(path, spec, number, flags, dict(_flags([*lists["command"], *lists["args"]])))


def _flags(words: list[str]) -> Iterator[tuple[str, str]]:
    """--flag=value, --flag value, --flag (true)."""
    for number, word in enumerate(words):
        name, equals, value = word.lstrip("-").partition("=")
        if not word.startswith("-"):
            continue
        following = words[number + 1] if number + 1 < len(words) else "-"
        yield name, value if equals else "true" if following.startswith("-") else following


def _length(found: Scheduler, name: str) -> int:
    return len(at(found.spec, "containers", found.container, name) or [])


def _listed(path: Path, present: Any, item: Mapping[str, Any]) -> list[Put]:
    """The item of this name put into the list there, unless it stands there so."""
    if present is None:
        return [Put(path, [dict(item)])]
    place = next((number for number, each in enumerate(present) if each["name"] == item["name"]), len(present))
    return [] if at(present, place) == item else [Put((*path, place), dict(item))]


def is_name(url: str) -> bool:
    try:
        ip_address(urlsplit(url).hostname or "")
    except ValueError:
        return True
    return False
