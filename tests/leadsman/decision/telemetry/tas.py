"""Policies and metrics in the words of the tests."""

from collections.abc import Iterable, Mapping
from typing import Any

from leadsman.decision.inputs import DecisionInputs, PolledMetrics, Readings, TasPolicies, TelemetryInputs
from leadsman.decision.model import PodInfo
from leadsman.decision.policy import Policy
from leadsman.decision.telemetry import taspolicy
from leadsman.decision.telemetry.taspolicy import TasPolicy
from leadsman.kube import quantity
from leadsman.state.snapshot import NodeState, Snapshot

NOW = 1000.0


def rule(metric: str, operator: str, target: int = 0, *labels: str) -> dict[str, Any]:
    return {"metricname": metric, "operator": operator, "target": target, "labels": list(labels)}


def obj(name: str = "p", namespace: str = "ns", metrics: Any = None, **strategies: Any) -> dict[str, Any]:
    """A TASPolicy. A strategy is a list of rules or an object."""
    spec = {key: {"rules": of} if isinstance(of, list) else of for key, of in strategies.items()}
    metadata = {"name": name, "namespace": namespace}
    return {"metadata": metadata, "spec": {"strategies": spec, **({"metrics": metrics} if metrics else {})}}


def policy(name: str = "p", namespace: str = "ns", metrics: Any = None, **strategies: Any) -> TasPolicy:
    return taspolicy.parse_taspolicy(obj(name, namespace, metrics, **strategies))


def column(values: Mapping[str, Any], read_at: float = NOW) -> Readings:
    """node → a quantity as text, or a number."""
    nanos = {node: quantity.parse(str(value)) for node, value in values.items()}
    return Readings(nanos, dict.fromkeys(nanos, read_at), read_at)


def facts(
    policies: Iterable[TasPolicy],
    metrics: Mapping[str, Mapping[str, Any]] | None = None,
    now: float = NOW,
    states: Mapping[str, NodeState] | None = None,
) -> DecisionInputs:
    """metrics: name → node → value, read now."""
    table = PolledMetrics({metric: column(values, now) for metric, values in (metrics or {}).items()})
    policies_by_key = TasPolicies({each.key: each for each in policies}, loaded=True)
    return DecisionInputs(Snapshot(states or {}), Policy(), now, telemetry=TelemetryInputs(policies_by_key, (table,)))


def pod(policy_name: str = "p", namespace: str = "ns") -> PodInfo:
    return PodInfo(namespace, "pod-1", labels={"telemetry-policy": policy_name})
