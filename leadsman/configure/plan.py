"""What must change in which file so that a kube-scheduler asks our extender. Pure: files are read through `read`."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

import yaml
from msgspec import Struct

from leadsman.configure import Refused, at, config, pod
from leadsman.configure.config import Wanted
from leadsman.configure.pod import Scheduler
from leadsman.configure.text import Put, documents, edited

SECRET, SECRET_FOLDER = "leadsman-scheduler-tls", "/etc/leadsman-scheduler"
"""As `leadsman certs secrets` names it, and where a pod that has it mounts it."""

Read = Callable[[str], str | None]
"""A file's text; None when there is none."""


class Settings(Struct, frozen=True):
    """folder: holds ca.crt, client.crt and client.key, where the scheduler runs. config: made for a scheduler that has
    none; inside `folder`, so that one mount shows both."""

    url: str
    server_name: str
    folder: str = "/etc/kubernetes/leadsman"
    config: str = "/etc/kubernetes/leadsman/scheduler.yaml"
    weight: int = 5
    timeout: str = "500ms"
    managed: bool = False


class Change(Struct, frozen=True):
    """before None: the file is new."""

    path: str
    before: str | None
    after: str


def changes(path: str, text: str, read: Read, settings: Settings) -> list[Change]:
    """In the order to write them, only what differs. Refused when the file is none that we know how to change."""
    found = list(_planned(path, text, read, settings))
    if not found:
        raise Refused(f"{path}: neither a kube-scheduler's pod nor a {config.GROUP} KubeSchedulerConfiguration in it")
    return [change for change in found if change.before != change.after]


def _planned(path: str, text: str, read: Read, settings: Settings) -> Iterator[Change]:
    after, known = text, False
    for number, data in enumerate(documents(text)):
        if config.is_configuration(data):
            after, known = edited(after, number, _named(path, config.edits, data, _on_host(settings))), True
        for key, inner in _configurations(data):
            new = edited(inner, 0, _named(f"{path}: {key}", config.edits, documents(inner)[0], _in_pod(settings)))
            after, known = edited(after, number, [Put(("data", key), new)] if new != inner else []), True
        if scheduler := _named(path, pod.find, data):
            own, puts = _for_pod(scheduler, text, read, settings)
            yield from own
            after, known = edited(after, number, puts), True
    if known:
        yield Change(path, text, after)


def _for_pod(found: Scheduler, text: str, read: Read, settings: Settings) -> tuple[list[Change], list[Put]]:
    """The scheduler's configuration, when it is a file of its own, and what its pod must hold."""
    host = {"hostPath": {"path": settings.folder, "type": "Directory"}}
    if not found.config:
        puts = pod.edits(found, host, settings.folder, settings.config, settings.url)
        return [_created(found, read, settings)], puts
    rest, volume = found.source()
    if "configMap" in volume:
        _check_config_map(volume["configMap"], text)
        secret = {"secret": {"secretName": SECRET}}
        return [], pod.edits(found, secret, SECRET_FOLDER, "", settings.url)
    if "hostPath" not in volume:
        raise Refused(f"--config={found.config}: comes from no hostPath and no ConfigMap; put it into one of them")
    own = _edited(str(PurePosixPath(volume["hostPath"]["path"]) / rest), read, settings)
    return [own], pod.edits(found, host, settings.folder, "", settings.url)


def _created(found: Scheduler, read: Read, settings: Settings) -> Change:
    if found.path != pod.POD_SPECS["Pod"]:
        raise Refused("kube-scheduler has no --config; give it one from a ConfigMap first, in the same file")
    made = config.created(found.given, _on_host(settings))
    text, there = HEADER + yaml.safe_dump(made, sort_keys=False, width=10_000), read(settings.config)
    if there not in (None, text):
        raise Refused(f"{settings.config}: is there already; name another file with --config")
    return Change(settings.config, there, text)


HEADER = (
    "# Made by `leadsman configure-scheduler` from kube-scheduler's flags, which it no longer reads beside --config.\n"
)


def _edited(path: str, read: Read, settings: Settings) -> Change:
    text = read(path)
    if text is None:
        raise Refused(f"{path}: kube-scheduler's configuration is not on this machine; run this where it is")
    if not config.is_configuration((documents(text) or [None])[0]):
        raise Refused(f"{path}: no KubeSchedulerConfiguration")
    puts = _named(path, config.edits, documents(text)[0], _on_host(settings))
    return Change(path, text, edited(text, 0, puts))


def _configurations(data: Any) -> Iterator[tuple[str, str]]:
    """Key → text, of a ConfigMap."""
    values: Mapping[str, Any] = (at(data, "data") or {}) if at(data, "kind") == "ConfigMap" else {}
    for key, inner in values.items():
        if "KubeSchedulerConfiguration" in str(inner):
            yield key, inner


def _check_config_map(source: Mapping[str, Any], text: str) -> None:
    names = [at(data, "metadata", "name") for data in documents(text) if any(_configurations(data))]
    if source["name"] not in names:
        here = f"kubectl get configmap {source['name']} -o yaml"
        raise Refused(f"its configuration is in ConfigMap {source['name']}; put that into the same file ({here})")


def _on_host(settings: Settings) -> Wanted:
    folder = settings.folder
    return _wanted(settings, f"{folder}/ca.crt", f"{folder}/client.crt", f"{folder}/client.key")


def _in_pod(settings: Settings) -> Wanted:
    return _wanted(settings, f"{SECRET_FOLDER}/ca.crt", f"{SECRET_FOLDER}/tls.crt", f"{SECRET_FOLDER}/tls.key")


def _wanted(settings: Settings, ca: str, certificate: str, key: str) -> Wanted:
    shared = {field: getattr(settings, field) for field in ("url", "server_name", "weight", "timeout", "managed")}
    return Wanted(ca=ca, certificate=certificate, key=key, **shared)


def _named(place: str, step: Callable[..., Any], *arguments: Any) -> Any:
    """The step's answer; a refusal says where."""
    try:
        return step(*arguments)
    except Refused as error:
        raise Refused(f"{place}: {error}") from error
