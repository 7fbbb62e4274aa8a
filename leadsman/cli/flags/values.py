"""Parses the values of flags, from the command line or an environment variable.

A parser raises ArgumentTypeError with the text and what is allowed; argparse puts the flag's name before it.
"""

import argparse
import contextlib
import os
import re
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import Any

THROUGH_KUBECTL = "kubectl"
"""The value of --extender that has it found in the cluster."""


def did_you_mean(text: str, allowed: Iterable[str]) -> str:
    """Returns "; did you mean explain?", or "" where nothing allowed is near."""
    # Imported here, as no agent that runs needs it.
    near = import_module("difflib").get_close_matches(text, list(allowed), n=1, cutoff=0.6)
    return f"; did you mean {near[0]}?" if near else ""


def checked(text: str, is_fine: object, wanted: str) -> str:
    """Returns the text if it is fine; else raises ArgumentTypeError, which says what is wanted."""
    if not is_fine:
        raise argparse.ArgumentTypeError(f"{text!r}: want {wanted}")
    return text


def url_list(text: str) -> tuple[str, ...]:
    found = tuple(url.strip().rstrip("/") for url in text.split(",") if url.strip())
    is_fine = found and all(url.startswith(("http://", "https://")) for url in found)
    checked(text, is_fine, "http://HOST:PORT or https://HOST:PORT, comma-separated")
    return found


def optional_url(text: str) -> str:
    """Parses one URL, or nothing."""
    return checked(text, not text or re.match("https?://.", text), "http://HOST:PORT or https://HOST:PORT").rstrip("/")


def namespace_name(text: str) -> str:
    """Parses a namespace as Kubernetes names one: a label of RFC 1123."""
    is_fine = re.fullmatch("[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", text)
    return checked(text, is_fine, "a namespace: a-z, 0-9 and -, at most 63 characters")


def object_name(text: str) -> str:
    """Parses a name as Kubernetes gives nodes and most other objects."""
    from leadsman.state.keys import is_node_name

    return checked(text, is_node_name(text), "the name of an object: a-z, 0-9, - and ., at most 253 characters")


def optional_object_name(text: str) -> str:
    return text and object_name(text)


def label_key(text: str) -> str:
    """Parses the key of a label as Kubernetes has them: an optional prefix, which is a subdomain, and a name."""
    prefix, slash, name = text.rpartition("/")
    is_fine = re.fullmatch("[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", name) and (not slash or object_name(prefix))
    return checked(text, is_fine, "a label's key, such as topology.kubernetes.io/rack")


def image_reference(text: str) -> str:
    is_fine = re.fullmatch(r"[A-Za-z0-9][-A-Za-z0-9_./:@]*", text)
    return checked(text, is_fine, "an image, such as registry.example.com/pause:3.10")


class OneOf:
    """Parses one of these words. argparse's `choices` do not check a default, and so no environment variable either.
    kind: of the value, such as an Enum of these words."""

    def __init__(self, allowed: Sequence[str], kind: Callable[[str], Any] = str) -> None:
        self.allowed, self._kind = allowed, kind

    def __call__(self, text: str) -> Any:
        if text not in self.allowed:
            suggestion = did_you_mean(text, self.allowed)
            raise argparse.ArgumentTypeError(f"{text!r}: want one of {', '.join(self.allowed)}{suggestion}")
        return self._kind(text)


def one_of(*allowed: str) -> OneOf:
    return OneOf(allowed)


def member_of(kind: type[StrEnum]) -> OneOf:
    return OneOf([each.value for each in kind], kind)


def positive_number(text: str) -> float:
    return _number(text, float, lambda value: 0 < value <= 1e9, "a number above 0, at most 1e9")


def non_negative_number(text: str) -> float:
    return _number(text, float, lambda value: 0 <= value <= 1e9, "a number from 0 to 1e9")


def positive_int(text: str) -> int:
    """Parses a count, which a date and kube-scheduler's integers can hold."""
    return int(_number(text, int, lambda value: 0 < value <= 1_000_000, "a whole number from 1 to 1,000,000"))


def peer_count(text: str) -> int:
    """Parses how many peers an agent probes: no report of 4 KiB holds more."""
    return int(_number(text, int, lambda value: 0 < value <= 146, "a whole number from 1 to 146"))


def port_number(text: str) -> int:
    return int(_number(text, int, lambda value: 0 < value < 65536, "a port, from 1 to 65535"))


def _number(text: str, kind: Callable[[str], float], is_fine: Callable[[float], bool], wanted: str) -> float:
    with contextlib.suppress(ValueError):
        if is_fine(value := kind(text)):
            return value
    raise argparse.ArgumentTypeError(f"{text!r}: want {wanted}")


def listen_address(text: str) -> str:
    """Parses HOST:PORT, with an IPv6 host in brackets."""
    host, colon, port = text.rpartition(":")
    is_fine = host and colon and port.isdecimal() and int(port) < 65536
    return checked(text, is_fine, "HOST:PORT, with an IPv6 host in [brackets]")


def loopback_address(text: str) -> str:
    """Parses HOST:PORT of this machine alone."""
    is_fine = listen_address(text).rpartition(":")[0] in ("127.0.0.1", "localhost", "[::1]")
    return checked(text, is_fine, "127.0.0.1:PORT, localhost:PORT or [::1]:PORT")


def split_host_port(text: str) -> tuple[str, int]:
    """Splits a `listen_address` into host and port."""
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)


def existing_file(text: str) -> Path:
    """Parses a file to read, or what stands for one, such as the pipe of a shell's <(...)."""
    path = Path(text)
    if not path.exists() or path.is_dir():
        raise argparse.ArgumentTypeError(
            f"{text!r}: {'want a file, not a folder' if path.is_dir() else 'no such file'}"
        )
    return path


def file_to_write(text: str) -> Path:
    """Parses a file to write, and refuses one that cannot be written before anything is computed that would be lost."""
    path = Path(text)
    is_fine = not path.is_dir() and os.access(path if path.exists() else path.parent, os.W_OK)
    checked(text, is_fine, "a file in a folder that exists and can be written")
    return path


def name_list(text: str) -> tuple[str, ...]:
    """Parses names, each once, in the order given."""
    found = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    checked(text, found, "NAME or NAME,NAME")
    return found


def server_names(text: str) -> tuple[str, ...]:
    """Parses DNS names and addresses by which a server is called, each once, in the order given."""
    found = name_list(text)
    for name in found:
        checked(name, re.fullmatch(r"(\*\.)?[-A-Za-z0-9.:]+", name), "a DNS name or an address")
    return found


def existing_folder(text: str) -> Path:
    path = Path(text)
    if not path.is_dir():
        raise argparse.ArgumentTypeError(f"{text!r}: {'want a folder' if path.exists() else 'no such folder'}")
    return path


METAVARS: dict[Callable[[str], Any], str] = {
    existing_file: "FILE",
    existing_folder: "DIR",
    file_to_write: "FILE",
    image_reference: "IMAGE",
    label_key: "LABEL",
    listen_address: "HOST:PORT",
    loopback_address: "HOST:PORT",
    name_list: "NAME[,NAME]",
    namespace_name: "NAMESPACE",
    non_negative_number: "N",
    object_name: "NAME",
    optional_object_name: "NAME",
    optional_url: "URL",
    port_number: "PORT",
    positive_int: "N",
    positive_number: "N",
    server_names: "NAME[,NAME]",
    url_list: "URL[,URL]",
}
"""Says how the usage shows the value of each parser; a completion offers files for FILE and folders for DIR."""
