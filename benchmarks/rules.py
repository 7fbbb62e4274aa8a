"""What rules of a policy cost a request, in CPU time, beside the same request without: `python -m benchmarks.rules`.

Node, pod and mixed rules, filter and prioritize together, and as many with macros and a pattern. Between two requests
1 % of the nodes report. All are measured in turn, each on a cache of its own. The exit status is 1 when a target is
missed.
"""

import argparse
import random
import statistics
import sys
import time
from collections.abc import Sequence

from msgspec import structs

from benchmarks.decide import random_state
from leadsman.decision.cache import DecisionCache
from leadsman.decision.decide import filter_nodes, score_nodes
from leadsman.decision.inputs import DecisionInputs, NodeLabels
from leadsman.decision.model import CandidateNodes, PodInfo
from leadsman.decision.policy import FilterRule, Policy, RulesPolicy, ScoreRule
from leadsman.state.snapshot import Snapshot

NOW = 10.0

RULES = RulesPolicy(
    (
        FilterRule("node", 'node.hardware["temperature_celsius"] < 200.0 && node.labels["pool"] != "spare"', "spare"),
        FilterRule("pod", 'pod.namespace != "kube-system" || pod.priority < 1000', "system"),
        FilterRule("mixed", 'node.labels["pool"] == pod.labels["pool"] || pod.priority > 1000', "another pool"),
    ),
    (
        ScoreRule("cool", '1.0 - node.hardware["temperature_celsius"] / 100.0'),
        ScoreRule("room", 'pod.priority > 0 ? 1.0 - node.hardware["load1_per_cpu"] : 0.5'),
    ),
)

MACROS = RulesPolicy(
    (
        FilterRule("pattern", 'node.labels["pool"].matches("^(main|spare|gpu-[0-9]{1,3})$")', "another pool"),
        FilterRule("exists", '["main", "spare"].exists(p, node.labels["pool"] == p && pod.labels["pool"] == p)', "no"),
        FilterRule("pod", '["kube-system", "monitoring"].all(n, pod.namespace != n)', "system"),
    ),
    (
        ScoreRule("features", '["ssd", "gpu", "10gbe"].filter(k, k in node.labels).size() > 0 ? 1.0 : 0.5'),
        ScoreRule("cool", '["temperature_celsius"].all(m, node.hardware[m] < 80.0) ? 1.0 : 0.0'),
    ),
)

TARGET_MS = 2.0
"""More a request at 5,000 nodes, p50."""


class Way:
    """One policy, with its own cache. milliseconds: of each request."""

    def __init__(self, policy: Policy, labels: NodeLabels, nodes: CandidateNodes) -> None:
        self._policy, self._labels, self._nodes = policy, labels, nodes
        self._cache = DecisionCache()
        self.milliseconds = list[float]()

    def decide(self, snapshot: Snapshot) -> None:
        inputs = DecisionInputs(snapshot, self._policy, NOW, self._cache, node_labels=self._labels)
        pod = PodInfo("shop", "web", labels={"pool": "main"}, priority=10)
        began = time.thread_time()
        kept, _ = filter_nodes(pod, self._nodes, inputs)
        score_nodes(pod, kept, inputs)
        self.milliseconds.append((time.thread_time() - began) * 1000)


def p99(values: Sequence[float]) -> float:
    return statistics.quantiles(values, n=100)[98]


def measure(count: int, requests: int, rng: random.Random) -> int:
    """How many targets are missed, of those that it prints."""
    states = {f"node-{node}": random_state(node, count, False, rng) for node in range(count)}
    nodes = CandidateNodes(states)
    labels = NodeLabels({node: {"pool": "main", "kubernetes.io/os": "linux"} for node in nodes})
    ways = {
        "without rules": Way(Policy(), labels, nodes),
        "five rules": Way(Policy(rules=RULES), labels, nodes),
        "five with macros": Way(Policy(rules=MACROS), labels, nodes),
    }
    for _ in range(requests):
        reporting = rng.sample(nodes, max(1, count // 100))
        states = states | {node: structs.replace(states[node], changed_at=6.0) for node in reporting}
        snapshot = Snapshot(states)
        for way in ways.values():
            way.decide(snapshot)
    plain, missed = ways["without rules"].milliseconds[5:], 0
    for name, way in ways.items():
        first, later = way.milliseconds[0], way.milliseconds[5:]
        extra = [after - before for before, after in zip(plain, later, strict=True)]
        middle = statistics.median(extra)
        met = middle <= TARGET_MS
        missed += not met
        verdict = "" if later == plain else f"   {'met' if met else 'MISSED'}: <= {TARGET_MS:g} ms more"
        print(
            f"{count:>6,} nodes  {name:<16} first {first:7.2f} ms   p50 {statistics.median(later):6.3f} ms"
            f"   p99 {p99(later):6.3f} ms   more a request: p50 {middle:6.3f}, p99 {p99(extra):6.3f} ms"
            f"   ratio of p50 {statistics.median(later) / statistics.median(plain):.2f}{verdict}"
        )
    return missed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="+", default=[100, 1_000, 5_000])
    parser.add_argument("--requests", type=int, default=400)
    args = parser.parse_args()
    if missed := sum(measure(count, args.requests, random.Random(1)) for count in args.nodes):
        sys.exit(f"{missed} targets of {TARGET_MS:g} ms are missed")


if __name__ == "__main__":
    main()
