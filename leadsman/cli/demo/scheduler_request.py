"""Plays kube-scheduler in the demo: a request that a real kube-scheduler 1.36.2 sent, and its two calls.

`request.json` is that request's body, byte for byte. The demo replaces the nodes' names and adds labels to the pod;
everything else is as the scheduler sent it.
"""

import json
from collections.abc import Sequence
from importlib.resources import files
from typing import Any, cast
from urllib.error import URLError
from urllib.request import Request, urlopen

_TIMEOUT_SECONDS = 10


def captured_args(nodes: Sequence[str], labels: dict[str, str]) -> dict[str, Any]:
    """Returns the captured body with these node names, and with these labels added to the pod's."""
    body = json.loads(files(__package__).joinpath("request.json").read_text())
    body["NodeNames"] = list(nodes)
    body["Pod"]["metadata"]["labels"] |= labels
    return cast(dict[str, Any], body)


def pod_name(body: dict[str, Any]) -> str:
    return f"{body['Pod']['metadata']['namespace']}/{body['Pod']['metadata']['name']}"


def filter_and_prioritize(extender: str, body: dict[str, Any]) -> dict[str, int]:
    """Calls filter, then prioritize with the nodes that were kept, as kube-scheduler does; returns their scores."""
    kept = _post(f"{extender}/filter", body)["NodeNames"]
    scores = _post(f"{extender}/prioritize", body | {"NodeNames": kept}) if kept else []
    return {each["Host"]: each["Score"] for each in scores}


def reporting_nodes(api: str) -> list[dict[str, Any]]:
    """Returns what the extender knows of each reporting node; empty while it does not answer. api: its API's URL."""
    try:
        return list(get_json(f"{api}/api/v1/state")["nodes"].values())
    except URLError:
        return []


def explanation(api: str, pod: str) -> dict[str, Any]:
    """Says why the pod, namespace/name, was placed where it is."""
    return cast(dict[str, Any], get_json(f"{api}/api/v1/pods/{pod}")["explanation"])


def get_json(url: str) -> Any:
    with urlopen(url, timeout=_TIMEOUT_SECONDS) as answer:
        return json.load(answer)


def _post(url: str, body: dict[str, Any]) -> Any:
    data = json.dumps(body).encode()
    with urlopen(Request(url, data, {"Content-Type": "application/json"}), timeout=_TIMEOUT_SECONDS) as answer:
        return json.load(answer)
