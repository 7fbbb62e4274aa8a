"""A snapshot without the names in it: planned on, it gives the same plan under other names."""

from collections.abc import Iterator, Mapping, Set
from fnmatch import fnmatchcase
from random import Random
from typing import TypeVar

from msgspec.structs import replace

from leadsman.cluster.model import Cluster
from leadsman.cluster.selectors import NodeSelectorTerm, Operator
from leadsman.decision.delay.targets import NODE_KIND
from leadsman.decision.delay.views import DelayView, LastRoundTrips
from leadsman.decision.healing.model import RoomHold, SelfHealing
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.policy import Policy
from leadsman.decision.telemetry.model import (
    PolledMetrics,
    RefusedPolicy,
    SnapshotMetrics,
    TasPolicies,
    TelemetryInputs,
)
from leadsman.decision.telemetry.taspolicy import (
    VIOLATING,
    PolicyKey,
    PolicyProblem,
    Rule,
    RuleLabel,
    Strategy,
    TasPolicy,
)
from leadsman.decision.workloads import PlacedPod, WorkloadIndex
from leadsman.planning.backups.placeholders import node_label
from leadsman.rewards.pod_types import pod_type
from leadsman.sources.cluster_snapshot.anonymous_cluster import AnonymousCluster
from leadsman.sources.cluster_snapshot.anonymous_labels import AnonymousLabels
from leadsman.sources.cluster_snapshot.document import ClusterSnapshot
from leadsman.sources.cluster_snapshot.pseudonyms import Rename, pseudonyms
from leadsman.sources.delay.goldpinger import GoldpingerView
from leadsman.sources.delay.goldpinger_response import GoldpingerReport
from leadsman.sources.delay.matrix import DelayMatrix
from leadsman.state.snapshot import NodeState, Snapshot

V = TypeVar("V")

REMOVED = "not in an anonymous snapshot"
"""Stands for texts that people wrote, or that name things."""


def anonymous(snapshot: ClusterSnapshot, rng: Random, kept_keys: Set[str] = frozenset()) -> ClusterSnapshot:
    """The snapshot with pseudonyms for names. rng: secret, or they could be guessed (`pseudonyms`).

    kept_keys: keys of labels that stay besides the well-known ones.
    """
    names: set[str] = set()

    def collect(name: str) -> str:
        names.add(name)
        return name

    _Anonymous(snapshot, collect, kept_keys).snapshot()
    pseudonym = pseudonyms(names - {""}, rng)
    return _Anonymous(snapshot, lambda name: pseudonym[name] if name else "", kept_keys).snapshot()


class _Anonymous:
    """Renames what is in one snapshot. rename: for every name but those of Jobs, of which the time of the run stays."""

    def __init__(self, snapshot: ClusterSnapshot, rename: Rename, kept_keys: Set[str]) -> None:
        self._before, inputs = snapshot, snapshot.inputs
        self._runs = _runs_of_jobs(snapshot)
        self._rename_base = rename
        labels = AnonymousLabels(
            self._rename,
            kept_keys=kept_keys,
            number_keys=frozenset(_compared_keys(snapshot.cluster)),
            kinds={NODE_KIND, *(kind for kinds in inputs.workloads.by_name.values() for kind in kinds)}
            | {pod.workload.partition("/")[0] for pod in snapshot.cluster.pods.values()},
            node_of_label={node_label(node): node for node in snapshot.cluster.nodes},
        )
        self._cluster = AnonymousCluster(self._rename, labels)

    def snapshot(self) -> ClusterSnapshot:
        """Why something is missing may name anything, and is left out."""
        before = self._before
        return ClusterSnapshot(
            self._cluster.cluster(before.cluster),
            self._inputs(before.inputs),
            before.taken_at,
            dict.fromkeys(before.missing, REMOVED),
        )

    def _rename(self, name: str) -> str:
        base = self._runs.get(name, name)
        return self._rename_base(base) + name[len(base) :]

    def _keys(self, table: Mapping[str, V]) -> dict[str, V]:
        return {self._rename(name): value for name, value in table.items()}

    def _inputs(self, inputs: DecisionInputs) -> DecisionInputs:
        return DecisionInputs(
            Snapshot(
                {self._rename(node): self._agent(state) for node, state in inputs.snapshot.nodes.items()},
                rewards={self._rename(name): self._keys(by_node) for name, by_node in inputs.snapshot.rewards.items()},
            ),
            self._policy(inputs.policy),
            inputs.now,
            workloads=self._workloads(inputs.workloads),
            delay_views=tuple(map(self._delays, inputs.delay_views)),
            telemetry=self._telemetry(inputs.telemetry),
            node_roles=self._keys(inputs.node_roles),
            self_healing=self._self_healing(inputs.self_healing),
            last_round_trips={
                self._rename(node): LastRoundTrips(last.measured_at, self._keys(last.rtt_ms))
                for node, last in inputs.last_round_trips.items()
            },
        )

    def _agent(self, state: NodeState) -> NodeState:
        who, latency, reach = state.identity, state.latency, state.reachability
        return replace(
            state,
            identity=who
            and replace(
                who,
                owner=self._rename(who.owner),
                address=self._rename(who.address),
                zone=self._rename(who.zone),
                rack=self._rename(who.rack),
            ),
            latency=latency and replace(latency, peers=self._keys(latency.peers)),
            reachability=reach
            and replace(
                reach,
                losses=self._keys(reach.losses),
                silences=self._keys(reach.silences),
                local_fault=REMOVED if reach.local_fault else "",
            ),
        )

    def _policy(self, policy: Policy) -> Policy:
        """Patterns of names become the names that they match."""
        inputs, cloud = self._before.inputs, policy.scores.cloud
        nodes = {
            *self._before.cluster.nodes,
            *inputs.snapshot.nodes,
            *(node for view in inputs.delay_views for node in view.nodes),
        }
        zones = {state.identity.zone for state in inputs.snapshot.nodes.values() if state.identity}
        matched = replace(cloud, nodes=self._matched(cloud.nodes, nodes), zones=self._matched(cloud.zones, zones))
        return replace(policy, scores=replace(policy.scores, cloud=matched))

    def _matched(self, patterns: tuple[str, ...], names: Set[str]) -> tuple[str, ...]:
        matched = (name for name in sorted(names) if any(fnmatchcase(name, pattern) for pattern in patterns))
        return tuple(map(self._rename, matched))

    def _workloads(self, index: WorkloadIndex) -> WorkloadIndex:
        table = {
            (self._cluster.namespace(namespace), self._rename(name)): {
                kind: tuple(PlacedPod(self._rename(each.pod), self._rename(each.node)) for each in placed)
                for kind, placed in kinds.items()
            }
            for (namespace, name), kinds in index.by_name.items()
        }
        return WorkloadIndex(table, index.read_at)

    def _delays(self, view: DelayView) -> DelayView:
        """When Goldpinger pinged is left out: no decision reads it."""
        if isinstance(view, DelayMatrix):
            return replace(view, rows=self._keys(view.rows))
        if not isinstance(view, GoldpingerView):
            raise ValueError(f"delays from {view.source} cannot be made anonymous")
        reports = {
            self._rename(node): GoldpingerReport(
                self._keys(report.rtt_ms), frozenset(map(self._rename, report.no_reply)), ""
            )
            for node, report in view.reports.items()
        }
        return replace(view, reports=reports, nodes=frozenset(map(self._rename, view.nodes)))

    def _telemetry(self, telemetry: TelemetryInputs) -> TelemetryInputs:
        policies = telemetry.policies
        removed = PolicyProblem("spec", REMOVED)
        return TelemetryInputs(
            TasPolicies(
                {self._policy_key(key): self._tas_policy(each) for key, each in policies.used.items()},
                {
                    self._policy_key(key): RefusedPolicy(removed, each.generation)
                    for key, each in policies.refused.items()
                },
                policies.loaded,
            ),
            tuple(map(self._metrics, telemetry.tables)),
        )

    def _policy_key(self, key: PolicyKey) -> PolicyKey:
        return PolicyKey(self._cluster.namespace(key.namespace), self._rename(key.name))

    def _tas_policy(self, policy: TasPolicy) -> TasPolicy:
        """Metrics' names stay. What is wrong with the policy is left out."""
        namespace, name = self._policy_key(policy.key)
        strategies = {strategy: self._strategy(each) for strategy, each in policy.strategies.items()}
        return replace(policy, namespace=namespace, name=name, problems=(), **strategies)

    def _strategy(self, strategy: Strategy) -> Strategy:
        return replace(strategy, rules=tuple(map(self._rule, strategy.rules)))

    def _rule(self, rule: Rule) -> Rule:
        labels = (
            RuleLabel(self._rename(key), value if value == VIOLATING else self._rename(value))
            for key, value in rule.labels
        )
        return replace(rule, labels=tuple(labels))

    def _metrics(self, table: PolledMetrics | SnapshotMetrics) -> PolledMetrics | SnapshotMetrics:
        if isinstance(table, SnapshotMetrics):
            return table
        columns = {
            metric: replace(
                column,
                values=self._keys(column.values),
                read_at=None if column.read_at is None else self._keys(column.read_at),
            )
            for metric, column in table.columns.items()
        }
        return PolledMetrics(columns, table.max_age_seconds)

    def _self_healing(self, healing: SelfHealing) -> SelfHealing:
        return SelfHealing(
            {self._rename(node): REMOVED for node in healing.refused},
            {
                self._rename(node): tuple(RoomHold(self._rename(hold.owner_uid), hold.until) for hold in holds)
                for node, holds in healing.holds.items()
            },
            {
                self._rename(node): frozenset(map(self._rename, owners))
                for node, owners in healing.backup_owners.items()
            },
            frozenset(map(self._rename, healing.placeholders)),
            healing.read_at,
        )


def _runs_of_jobs(snapshot: ClusterSnapshot) -> dict[str, str]:
    """Name of a Job → the part that stays the same from run to run, by which its rewards are found."""
    indexed = {name for (_, name), kinds in snapshot.inputs.workloads.by_name.items() if "job" in kinds}
    workloads = (pod.workload for pod in snapshot.cluster.pods.values() if pod.workload.startswith("job/"))
    jobs = indexed | {workload.removeprefix("job/") for workload in workloads}
    return {job: pod_type({}, job, "Job") for job in jobs}


def _compared_keys(cluster: Cluster) -> Iterator[str]:
    """Keys of labels whose values some selector compares as numbers."""
    terms: list[NodeSelectorTerm] = []
    for constraints in {id(pod.constraints): pod.constraints for pod in cluster.pods.values()}.values():
        terms += constraints.node_affinity or ()
    for volume in cluster.storage.volumes.values():
        terms += volume.node_affinity or ()
    for term in terms:
        yield from (each.key for each in term.labels if each.operator in (Operator.GT, Operator.LT))
