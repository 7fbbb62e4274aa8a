"""Decides on a pod that does not exist, on a snapshot of the cluster. Nothing is kept or changed.

A snapshot has the whole cluster, so what kube-scheduler asks of a node is part of the answer: taints, affinity, room.
"""

import contextlib
import time
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from extender.api.decisions import DecisionDetail, decision_detail, decision_row
from extender.api.what_if import decide_on_pod, pod_json, read_pod_json
from extender.body_limits import RequestRefused
from extender.decider import DecisionCore
from leadsman.cli.plan_inputs import judges_of_policy
from leadsman.cluster.model import Cluster, ClusterPod
from leadsman.cluster.scheduling import Feasibility
from leadsman.decision.decide import FilterResult
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import PodInfo, Refusal
from leadsman.kube.decoding import decode_json
from leadsman.kube.errors import MalformedResponse
from leadsman.planning.situation import Judge, with_devices_of, with_workloads_of
from leadsman.sources.cluster.pod_object import PodObject
from leadsman.sources.cluster_snapshot import BadSnapshot, read_snapshot
from leadsman.sources.delay.fitted_estimates import EstimatesOnDemand


def decide_on_snapshot(yaml: str, source: str, snapshot: Path, namespace: str) -> DecisionDetail:
    """Decides on the snapshot's nodes, and explains it as an extender does. source: the YAML's file. Raises
    ValueError."""
    try:
        read = read_snapshot(snapshot.read_bytes())
    except (BadSnapshot, OSError) as error:
        raise ValueError(f"{snapshot}: {error}") from error
    # A cluster that was generated or read from a list has no index of workloads: its pods say where they are.
    inputs = read.inputs if read.inputs.workloads.loaded else with_workloads_of(read.cluster, read.inputs)
    inputs = with_devices_of(read.cluster, replace(inputs, estimates=EstimatesOnDemand(inputs)))
    with contextlib.ExitStack() as closing:
        judge, scorer = judges_of_policy(inputs, closing)
        try:
            manifest = pod_json(yaml, namespace)
            asked = _as_kube_scheduler_asks(read.cluster, decode_json(manifest, PodObject).model, judge)
            core = DecisionCore(asked, scorer)
            entry = decide_on_pod(read_pod_json(manifest), sorted(read.cluster.nodes), inputs, core)
        except (RequestRefused, MalformedResponse) as error:
            raise ValueError(f"{source}: {error}") from error
        return decision_detail(entry, decision_row(entry, "", lambda _: time.time()), inputs.now, filter_nodes=asked)


def _as_kube_scheduler_asks(cluster: Cluster, pod: ClusterPod, judge: Judge) -> Judge:
    """Returns the judge, asked about the nodes that kube-scheduler itself does not refuse. pod: as the API server has
    it."""
    unfit = {node: Refusal("kube-scheduler", kind) for node, kind in Feasibility(cluster, pod).kinds().items()}

    def asked(info: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> FilterResult:
        kept, refused = judge(info, [node for node in nodes if node not in unfit], inputs)
        return FilterResult(kept, {**{node: unfit[node] for node in nodes if node in unfit}, **refused})

    return asked
