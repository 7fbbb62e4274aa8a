"""What the other replicas keep, as they say it at the same paths of this API."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

import msgspec

from extender.api.contract.decisions import SilentReplica
from extender.peers.client import PeerAnswer, PeerAnswers, PeerClient

T = TypeVar("T")

PREFIX = "/api/v1"


async def ask_replicas(
    replicas: PeerClient | None, path: str, query: Mapping[str, str], kind: type[T]
) -> tuple[list[tuple[str, T]], list[SilentReplica]]:
    """Name and answer of each replica that has one, and those that did not answer. path: below PREFIX."""
    said = await replicas.ask(PREFIX + path, query) if replicas else PeerAnswers()
    answers, silent = list[tuple[str, T]](), [SilentReplica(each.name, each.error) for each in said.silent]
    for each in said.answers:
        try:
            if each.status != 404:  # It keeps no such decision, and says so.
                answers.append((each.name, _decoded(each, kind)))
        except ValueError as error:
            silent.append(SilentReplica(each.name, str(error)))
    return answers, silent


def _decoded(answer: PeerAnswer, kind: type[T]) -> T:
    """ValueError when it is none of this kind."""
    if answer.status != 200:
        raise ValueError(f"its answer has the status {answer.status}")
    try:
        return msgspec.json.decode(answer.body, type=kind)
    except msgspec.DecodeError as error:
        raise ValueError(f"its answer cannot be read, so it may run another version: {error}") from error


def names_of(silent: Sequence[SilentReplica]) -> str:
    """As "extender-1: no answer within 450 ms"."""
    return "; ".join(f"{each.replica}: {each.error}" for each in silent)
