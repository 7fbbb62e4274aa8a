"""The changes that make a kube-scheduler ask the extender, file by file. Pure: files are read through `read`."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

import yaml
from msgspec import Struct

from leadsman.cli.configure import ConfigureError, scheduler_config, scheduler_pod, value_at
from leadsman.cli.configure.scheduler_config import ExtenderParameters
from leadsman.cli.configure.scheduler_pod import SchedulerPod
from leadsman.cli.configure.yaml_editing import YamlEdit, apply_edits, load_documents

SECRET_NAME, SECRET_FOLDER = "leadsman-scheduler-tls", "/etc/leadsman-scheduler"
"""As `leadsman certs secrets` names it, and where a pod that has it mounts it."""

ReadFile = Callable[[str], str | None]
"""A file's text; None when there is none."""


class ConfigureSettings(Struct, frozen=True):
    """What the scheduler is configured with.

    folder: holds ca.crt, client.crt and client.key, on the scheduler's machine.
    config: file to write for a scheduler that has none; inside `folder`, so that one mount shows both.
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
        if scheduler_config.is_scheduler_config(data):
            after, known = (
                apply_edits(after, number, _with_location(path, scheduler_config.edits, data, _on_host(settings))),
                True,
            )
        for key, inner in _configurations(data):
            new = apply_edits(
                inner,
                0,
                _with_location(f"{path}: {key}", scheduler_config.edits, load_documents(inner)[0], _in_pod(settings)),
            )
            after, known = apply_edits(after, number, [YamlEdit(("data", key), new)] if new != inner else []), True
        if scheduler := _with_location(path, scheduler_pod.find_scheduler, data):
            own, puts = _for_pod(scheduler, text, read, settings)
            yield from own
            after, known = apply_edits(after, number, puts), True
    if known:
        yield FileChange(path, text, after)


def _for_pod(
    found: SchedulerPod, text: str, read: ReadFile, settings: ConfigureSettings
) -> tuple[list[FileChange], list[YamlEdit]]:
    """The scheduler's configuration, when it is a file of its own, and what its pod must hold."""
    host = {"hostPath": {"path": settings.folder, "type": "Directory"}}
    if not found.config:
        puts = scheduler_pod.edits(found, host, settings.folder, settings.config, settings.url)
        return [_created(found, read, settings)], puts
    rest, volume = found.config_source()
    if "configMap" in volume:
        _check_config_map(volume["configMap"], text)
        secret = {"secret": {"secretName": SECRET_NAME}}
        return [], scheduler_pod.edits(found, secret, SECRET_FOLDER, "", settings.url)
    if "hostPath" not in volume:
        raise ConfigureError(
            f"--config={found.config}: comes from neither a hostPath nor a ConfigMap; put it into one of them"
        )
    own = _edited(str(PurePosixPath(volume["hostPath"]["path"]) / rest), read, settings)
    return [own], scheduler_pod.edits(found, host, settings.folder, "", settings.url)


def _created(found: SchedulerPod, read: ReadFile, settings: ConfigureSettings) -> FileChange:
    if found.path != scheduler_pod.POD_SPEC_PATHS["Pod"]:
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
    puts = _with_location(path, scheduler_config.edits, load_documents(text)[0], _on_host(settings))
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


def _on_host(settings: ConfigureSettings) -> ExtenderParameters:
    folder = settings.folder
    return _extender_parameters(settings, f"{folder}/ca.crt", f"{folder}/client.crt", f"{folder}/client.key")


def _in_pod(settings: ConfigureSettings) -> ExtenderParameters:
    return _extender_parameters(
        settings, f"{SECRET_FOLDER}/ca.crt", f"{SECRET_FOLDER}/tls.crt", f"{SECRET_FOLDER}/tls.key"
    )


def _extender_parameters(settings: ConfigureSettings, ca: str, certificate: str, key: str) -> ExtenderParameters:
    fields = ("url", "server_name", "weight", "timeout", "managed", "ignorable")
    shared = {field: getattr(settings, field) for field in fields}
    return ExtenderParameters(ca=ca, certificate=certificate, key=key, **shared)


def _with_location(place: str, step: Callable[..., Any], *arguments: Any) -> Any:
    """What the step returns; its ConfigureError says where."""
    try:
        return step(*arguments)
    except ConfigureError as error:
        raise ConfigureError(f"{place}: {error}") from error
