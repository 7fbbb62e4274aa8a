"""What agents wrote into the store, as a run's log recorded it: for a node, a moment, a revision."""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.torture.log import Pushed
from tests.torture.shape import CRASHING_TYPE

REWARD_KIND = f"rewards/{CRASHING_TYPE}"

SEARCHED_ERAS = 2
"""A view that was read just after the store was wiped may still be of the old one."""


class Pushes:
    """Pushes in the order of time, by node and kind. nodes: all that ever reported."""

    def __init__(self, pushes: Sequence[Pushed]) -> None:
        self._eras = [(push.at, push.era) for push in pushes]
        self._of: dict[tuple[int, str, str], list[Pushed]] = defaultdict(list)
        self._beats: dict[str, list[float]] = defaultdict(list)
        for push in pushes:
            self._of[push.era, push.node, push.kind].append(push)
            if push.kind == "heartbeat" and push.value is not None:
                self._beats[push.node].append(push.at)
        self.nodes = frozenset(self._beats)

    def era_at(self, at: float) -> int:
        place = bisect_right(self._eras, (at, 1 << 30))
        return self._eras[place - 1][1] if place else 0

    def heartbeat_between(self, node: str, since: float, until: float) -> bool:
        beats = self._beats.get(node, [])
        place = bisect_left(beats, since)
        return place < len(beats) and beats[place] <= until

    def last_heartbeat(self, node: str) -> float:
        return max(self._beats.get(node, [0.0]))

    def fresh_ratio(self, at: float, within_seconds: float) -> float:
        """Share of the nodes that ever reported which did so lately."""
        fresh = sum(self.heartbeat_between(node, at - within_seconds, at) for node in self.nodes)
        return fresh / len(self.nodes) if self.nodes else 0.0

    def heartbeats_that_went_back(self) -> Iterator[tuple[float, str]]:
        for (_, node, kind), pushes in self._of.items():
            if kind != "heartbeat":
                continue
            before = (-1, -1)
            for push in pushes:
                if not isinstance(push.value, dict):
                    continue
                now = (push.value.get("epoch", -1), push.value.get("seq", -1))
                if now <= before:
                    yield push.at, f"{node} pushed (epoch, seq) {now} after {before}"
                before = max(before, now)

    def holds(
        self, node: str, revision: int, at: float, p50_ms: Mapping[str, float | None], hardware: Mapping[str, float]
    ) -> bool:
        """Whether the store held these values of the node at the revision."""
        era = self.era_at(at)
        return any(
            self._p50_ms(e, node, revision) == dict(p50_ms) and self._hardware(e, node, revision) == dict(hardware)
            for e in range(max(0, era - SEARCHED_ERAS + 1), era + SEARCHED_ERAS)
        )

    def measured_ms(self, reporter: str, peer: str, since: float, until: float) -> set[float]:
        """The values that the reporter's record held for the peer at some time between."""
        values: set[float] = set()
        for (_, node, kind), pushes in self._of.items():
            if (node, kind) != (reporter, "latency"):
                continue
            for push, gone_at in zip(pushes, [*(later.at for later in pushes[1:]), float("inf")], strict=True):
                if push.at <= until and gone_at >= since:
                    window = _peers(push.value).get(peer, {})
                    values |= {value for key, value in window.items() if key.endswith("_ms")}
        return values

    def counted_crashes(self, node: str) -> list[tuple[float, int, int]]:
        """Lists when the node's reward of the crashing type changed: the time, the era, and the incidents it counts."""
        return sorted(
            (push.at, push.era, sum(push.value.get("incidents", {}).values()))
            for (_, of, kind), pushes in self._of.items()
            if (of, kind) == (node, REWARD_KIND)
            for push in pushes
            if isinstance(push.value, dict)
        )

    def _p50_ms(self, era: int, node: str, revision: int) -> dict[str, Any]:
        return {
            peer: window.get("p50_ms") for peer, window in _peers(self._value(era, node, "latency", revision)).items()
        }

    def _hardware(self, era: int, node: str, revision: int) -> dict[str, float]:
        value = self._value(era, node, "hardware", revision)
        return value.get("values", {}) if isinstance(value, dict) else {}

    def _value(self, era: int, node: str, kind: str, revision: int) -> Any:
        """None: absent at that revision."""
        pushes = self._of.get((era, node, kind), [])
        place = bisect_right(pushes, revision, key=lambda push: push.revision)
        return pushes[place - 1].value if place else None


def _peers(value: Any) -> Mapping[str, Mapping[str, Any]]:
    peers = value.get("peers") if isinstance(value, dict) else None
    return peers if isinstance(peers, dict) else {}
