"""Plans the changes that make a kube-scheduler ask the extender, file by file: its configuration, and its pod's
--config and volume of the certificates. Pure: files are read through `read`."""

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


class SchedulerPod(Struct, frozen=True):
    """A kube-scheduler's pod, and its flags.

    container: its position in the pod.
    flags_field: "command" or "args", the list that holds its flags.
    flag_values: flag without dashes → value.
    """

    spec: Mapping[str, Any]
    container: int
    flags_field: str
    flag_values: Mapping[str, str]

    @property
    def config(self) -> str:
        """Returns the configuration file that the scheduler reads; "" when it has none."""
        return self.flag_values.get("config", "")

    def config_on_host(self) -> str:
        """Returns the path of `config` on the machine."""
        mounts = value_at(self.spec, "containers", self.container, "volumeMounts") or []
        inside = [m for m in mounts if PurePosixPath(self.config).is_relative_to(m["mountPath"])]
        mount = max(inside, key=lambda m: len(m["mountPath"]), default={"name": "", "mountPath": "/"})
        volumes = {v["name"]: v for v in value_at(self.spec, "volumes") or []}
        folder = value_at(volumes.get(mount["name"]), "hostPath", "path")
        if folder is None:
            raise ConfigureError(f"--config={self.config}: does not come from a hostPath; put it into one")
        within = PurePosixPath(self.config).relative_to(mount["mountPath"])
        return str(PurePosixPath(folder) / mount.get("subPath", "") / within)


def find_scheduler(data: Any) -> SchedulerPod | None:
    """Finds the kube-scheduler in a document; None when the document holds none."""
    spec = value_at(data, "spec") if value_at(data, "kind") == "Pod" else None
    for number, container in enumerate(value_at(spec, "containers") or []):
        words = [*(value_at(container, "command") or []), *(value_at(container, "args") or [])]
        if any("kube-scheduler" in str(word) for word in [*words, value_at(container, "image")]):
            return _scheduler(spec, number, container)
    return None


def pod_edits(found: SchedulerPod, folder: str, config: str, url: str) -> list[YamlEdit]:
    """Returns the edits of the scheduler's pod.

    folder: of the certificates, mounted where it is on the machine.
    config: its new configuration; "": it keeps its own.
    """
    container = ("spec", "containers", found.container)
    flags = value_at(found.spec, "containers", found.container, found.flags_field) or []
    puts = [YamlEdit((*container, found.flags_field, len(flags)), f"--config={config}")] if config else []
    mount = {"name": VOLUME_NAME, "mountPath": folder, "readOnly": True}
    volume = {"name": VOLUME_NAME, "hostPath": {"path": folder, "type": "Directory"}}
    mounts = value_at(found.spec, "containers", found.container, "volumeMounts")
    puts += _put_named_item((*container, "volumeMounts"), mounts, mount)
    puts += _put_named_item(("spec", "volumes"), value_at(found.spec, "volumes"), volume)
    resolves = not value_at(found.spec, "hostNetwork") or not has_dns_host(url)
    if not resolves and value_at(found.spec, "dnsPolicy") != HOST_NETWORK_DNS_POLICY:
        puts.append(YamlEdit(("spec", "dnsPolicy"), HOST_NETWORK_DNS_POLICY))
    return puts


HOST_NETWORK_DNS_POLICY = "ClusterFirstWithHostNet"
"""The dnsPolicy without which a pod on the host network cannot resolve a Service's name."""


def _scheduler(spec: Any, number: int, container: Any) -> SchedulerPod:
    lists = {name: [str(word) for word in value_at(container, name) or []] for name in ("command", "args")}
    if any(word in ("-c", "-ec", "-lc") for words in lists.values() for word in words):
        raise ConfigureError(f"containers.{number}: a shell starts kube-scheduler; give the flags as a list")
    flags = "args" if lists["args"] or not lists["command"] else "command"
    return SchedulerPod(spec, number, flags, dict(_flags([*lists["command"], *lists["args"]])))


def _flags(words: list[str]) -> Iterator[tuple[str, str]]:
    """Yields flags and their values from --flag=value, --flag value and --flag (true)."""
    for number, word in enumerate(words):
        name, equals, value = word.lstrip("-").partition("=")
        if not word.startswith("-"):
            continue
        following = words[number + 1] if number + 1 < len(words) else "-"
        yield name, value if equals else "true" if following.startswith("-") else following


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


ReadFile = Callable[[str], str | None]
"""A file's text; None when there is none."""


class ConfigureSettings(Struct, frozen=True):
    """Says how the scheduler shall reach the extender.

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
    """Returns the changes, in the order to write them. Raises ConfigureError for a file that cannot be changed
    safely."""
    found = list(_planned(path, text, read, settings))
    if not found:
        raise ConfigureError(
            f"{path}: contains neither a kube-scheduler's pod nor a KubeSchedulerConfiguration of "
            f"{scheduler_config.API_GROUP}"
        )
    return [change for change in found if change.before != change.after]


def _planned(path: str, text: str, read: ReadFile, settings: ConfigureSettings) -> Iterator[FileChange]:
    after, known = text, False
    try:
        for number, data in enumerate(load_documents(text)):
            edits = list[YamlEdit]()
            if scheduler_config.is_scheduler_config(data):
                edits, known = scheduler_config.config_edits(data, extender_entry(settings)), True
            elif found := find_scheduler(data):
                known = True
                own, config = _own_configuration(found, read, settings)
                yield own
                edits = pod_edits(found, settings.folder, config, settings.url)
            after = apply_edits(after, number, edits)
    except ConfigureError as error:
        raise ConfigureError(f"{path}: {error}") from error
    if known:
        yield FileChange(path, text, after)


def _own_configuration(found: SchedulerPod, read: ReadFile, settings: ConfigureSettings) -> tuple[FileChange, str]:
    """Returns the change of its configuration, and that file where it is a new one; "": it keeps its own."""
    if found.config:
        return _edited(found.config_on_host(), read, settings), ""
    made = scheduler_config.new_config(found.flag_values, extender_entry(settings))
    text, there = NEW_CONFIG_HEADER + yaml.safe_dump(made, sort_keys=False, width=10_000), read(settings.config)
    if there not in (None, text):
        raise ConfigureError(f"{settings.config} exists already; name another file with --config")
    return FileChange(settings.config, there, text), settings.config


NEW_CONFIG_HEADER = (
    "# Made by `leadsman configure-scheduler` from kube-scheduler's flags, which it no longer reads beside --config.\n"
)


def _edited(path: str, read: ReadFile, settings: ConfigureSettings) -> FileChange:
    text = read(path)
    if text is None:
        raise ConfigureError(f"{path}: kube-scheduler's configuration is not on this machine; run this where it is")
    data = (load_documents(text) or [None])[0]
    if not scheduler_config.is_scheduler_config(data):
        raise ConfigureError(f"{path}: contains no KubeSchedulerConfiguration")
    return FileChange(path, text, apply_edits(text, 0, scheduler_config.config_edits(data, extender_entry(settings))))


def extender_entry(settings: ConfigureSettings) -> dict[str, Any]:
    """Returns our entry of `extenders`; why these values: daemonset/scheduler/kube-scheduler.yaml."""
    folder = settings.folder
    files = {"caFile": f"{folder}/ca.crt", "certFile": f"{folder}/client.crt", "keyFile": f"{folder}/client.key"}
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
        "tlsConfig": tls | files,
    } | managed
