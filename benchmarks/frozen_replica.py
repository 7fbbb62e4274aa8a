"""Measures what a frozen replica costs who asks the other one: `python -m benchmarks.frozen_replica [--rounds N]`

Two real extenders with a real etcd and real TLS (those of tests/whole/test_replicas.py). Each round asks one of them
with the other well, then stopped by SIGSTOP: the first answer after that waits for the deadline of replicas, those
after it must not. Times of whole requests in ms, each by a new connection, and the ratio of the medians, `later` to
`well`.
"""

import argparse
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from urllib.request import Request, urlopen

from extender.peers.client import ANSWER_SECONDS
from tests.whole.test_replicas import ANSWER_WITHIN_SECONDS, Pair, running_pair, until

REQUESTS = 20
"""Of each path in each state of a round."""


def questions(pair: Pair) -> Mapping[str, Callable[[], bool]]:
    """What the first replica is asked. Each returns whether its answer lacks the other's part."""

    def by_api(path: str) -> Callable[[], bool]:
        return lambda: bool(pair.api(0, path)[1]["partial"])

    def as_page(path: str) -> bool:
        request = Request(f"{pair.extenders[0].url}{path}")
        with urlopen(request, timeout=ANSWER_WITHIN_SECONDS, context=pair.context("client")) as response:
            response.read()
            return "Leadsman-Partial" in response.headers

    paths = "/api/v1/decisions", "/api/v1/pods/shop/cart-0"
    pages = "/decisions", "/explain?pod=shop/cart-0"
    return {path: by_api(path.removeprefix("/api/v1")) for path in paths} | {
        path: partial(as_page, path) for path in pages
    }


def timed_ms(question: Callable[[], bool]) -> float:
    began = time.perf_counter()
    question()
    return 1000 * (time.perf_counter() - began)


def run_round(pair: Pair, asked: Callable[[], bool], times: Mapping[str, list[float]]) -> None:
    until(lambda: not asked(), "the other replica's answer")
    times["well"] += [timed_ms(asked) for _ in range(REQUESTS)]
    pair.extenders[1].freeze()
    try:
        times["first"].append(timed_ms(asked))
        times["later"] += [timed_ms(asked) for _ in range(REQUESTS)]
    finally:
        pair.extenders[1].thaw()


def row(times: Sequence[float]) -> str:
    p95 = sorted(times)[min(len(times) - 1, round(0.95 * len(times)))]
    return f"{len(times):5}  {statistics.median(times):7.1f}  {p95:7.1f}  {max(times):7.1f}"


def main(rounds: int) -> None:
    with tempfile.TemporaryDirectory() as folder, running_pair(Path(folder) / "pair") as pair:
        print(f"the whole answer is to come within {1000 * ANSWER_SECONDS:g} ms")
        print(f"{'path':28}  other replica     n   median      p95      max  ratio")
        for path, asked in questions(pair).items():
            times: dict[str, list[float]] = defaultdict(list)
            for _ in range(rounds):
                run_round(pair, asked, times)
            ratio = statistics.median(times["later"]) / statistics.median(times["well"])
            for state, shown in (("well", ""), ("first", ""), ("later", f"  {ratio:5.2f}")):
                print(f"{path:28}  {state:13} {row(times[state])}{shown}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    main(parser.parse_args().rounds)
