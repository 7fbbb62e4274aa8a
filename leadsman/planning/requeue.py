"""Plans which node to touch so that kube-scheduler retries pods that the extender refused, once the cause is gone.

kube-scheduler retries a refused pod when a label or an annotation of a node changes (seen on 1.36.2), otherwise after
five minutes. So the plan filters nodes for each pod that waits, as the extender would now. Where a node passes that did
not pass before, that node is to be touched; one touch makes kube-scheduler retry every refused pod.

The extender may see the change a moment later than this planner and refuse once more, so two more touches follow.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeVar

from msgspec import Struct, structs

from leadsman.cluster.devices.cards import asks_of_one_card
from leadsman.cluster.devices.demand import extended_requests, readable_demand
from leadsman.decision.decide import filter_nodes
from leadsman.decision.inputs import DecisionInputs, workload_name
from leadsman.decision.model import CandidateNodes, PodInfo
from leadsman.kube import objects
from leadsman.kube.bounded_metadata import BoundedAnnotations, BoundedLabels
from leadsman.kube.names import DELAY_LABEL_PREFIX, DOMAIN, POLICY_LABEL
from leadsman.kube.objects import pod_owner

V = TypeVar("V", str, int)

TOUCH_DELAYS_SECONDS = (0.0, 5.0, 30.0)
"""When a node is touched, after it was first seen to pass."""

MAX_SIGNATURES_PER_PLAN = 200
"""Filtered for in one plan; those that waited longest come first in the next."""

MAX_SIGNATURES = 2_000
"""Remembered, each with the nodes that pass: 0.3 MB at 5,000 nodes where no two have the same. Pods of others are
retried by kube-scheduler itself, every five minutes."""

EXTENDER_KEY_PREFIXES = (DELAY_LABEL_PREFIX, f"{DOMAIN}/", POLICY_LABEL)


class PodSignature(Struct, frozen=True):
    """What decides how the extender answers for a pod: pods with one signature get one answer.

    name: of the pod's owner, which may be the pod itself.
    labels, annotations: those that are read.
    workload, excess: as in PodInfo.
    extended: of each container, extended resource and amount; () when no container requests any.
    """

    namespace: str
    name: str
    labels: tuple[tuple[str, str], ...]
    annotations: tuple[tuple[str, str], ...]
    workload: str = ""
    excess: str = ""
    extended: tuple[tuple[tuple[str, int], ...], ...] = ()

    @property
    def pod(self) -> PodInfo:
        """A pod of this signature, without UID."""
        labels, annotations = dict(self.labels), dict(self.annotations)
        devices, bad_demand = readable_demand(tuple(map(dict, self.extended)), annotations)
        return PodInfo(
            self.namespace,
            self.name,
            labels=labels,
            annotations=annotations,
            workload=self.workload,
            excess=self.excess,
            devices=devices,
            bad_demand=bad_demand,
        )

    @property
    def uses_extender(self) -> bool:
        """Whether a label or annotation on it is only there for the extender, or it asks for a part of a card."""
        own = any(key.startswith(EXTENDER_KEY_PREFIXES) for key, _ in (*self.labels, *self.annotations))
        return own or bool(asks_of_one_card(self.pod.devices))


class SignatureState(Struct, frozen=True):
    """What is remembered of a signature from one plan to the next.

    passing_nodes: those that passed when last filtered.
    filtered_at: monotonic seconds of that.
    touch_node: the node to touch.
    touch_times: monotonic seconds of the touches to come.
    """

    passing_nodes: frozenset[str] = frozenset()
    filtered_at: float = float("-inf")
    touch_node: str = ""
    touch_times: tuple[float, ...] = ()


RequeueMemory = Mapping[PodSignature, SignatureState]

NO_MEMORY: RequeueMemory = MappingProxyType({})


class TouchNode(Struct, frozen=True):
    """The one action: change an annotation of `node`. It must still exist; a touch too many does no harm."""

    node: str
    reason: str


class RequeuePlan(Struct, frozen=True):
    """What to do now.

    action: None: nothing.
    faults: what plugins raised, with a note for which pods; such pods are not retried early.
    memory: for the next plan.
    """

    action: TouchNode | None
    faults: tuple[Exception, ...]
    memory: RequeueMemory


def plan_requeue(
    pods: Iterable[objects.PendingPod],
    nodes: Sequence[str],
    inputs: DecisionInputs,
    memory: RequeueMemory,
    has_time: Callable[[], bool] = lambda: True,
) -> RequeuePlan:
    """Filters `nodes` for the unschedulable of `pods`, and plans a touch where a node passes that did not before.

    has_time: asked before each signature; those that it leaves out come first in the next plan.
    """
    waiting = dict.fromkeys(pod_signature(pod) for pod in pods if is_unschedulable(pod))
    signatures = dict.fromkeys(sorted(waiting, key=lambda each: each not in memory)[:MAX_SIGNATURES])
    states = {signature: memory[signature] for signature in signatures if signature in memory}
    faults: list[Exception] = []
    candidates = CandidateNodes.of(nodes)
    shared = {state.passing_nodes: state.passing_nodes for state in states.values()}
    for signature in _longest_unfiltered(signatures, states):
        if not has_time():
            break
        try:
            passing = frozenset(filter_nodes(signature.pod, candidates, inputs).kept)
        except Exception as fault:  # A plugin's: it costs these pods their early retry, and nothing else.
            fault.add_note(f"raised while filtering nodes for pods like {signature.namespace}/{signature.name}")
            faults.append(fault)
            states[signature] = structs.replace(states.get(signature, SignatureState()), filtered_at=inputs.now)
        else:
            passing = shared.setdefault(passing, passing)
            states[signature] = _next_state(signature, states.get(signature), passing, inputs.now)
    return RequeuePlan(_take_due_touch(states, inputs.now), tuple(faults), MappingProxyType(states))


def is_unschedulable(pod: objects.Pod) -> bool:
    """Whether kube-scheduler tried the pod and found no node for it."""
    return pod.unscheduled_reason == "Unschedulable" and not pod.terminating and not pod.spec.node_name


def pod_signature(pod: objects.PendingPod) -> PodSignature:
    """Quantities that cannot be read are no pod's: the API server refuses them."""
    metadata = pod.metadata
    owner = pod_owner(metadata.name, metadata.owner_references)
    workload = workload_name(*owner, metadata.labels)
    labels, annotations = BoundedLabels.read_of(metadata.labels), BoundedAnnotations.read_of(metadata.annotations)
    excess = metadata.labels.excess or metadata.annotations.excess
    extended = extended_requests(each.resources.requests for each in pod.spec.containers)
    return PodSignature(
        metadata.namespace,
        owner.name,
        _sorted(labels),
        _sorted(annotations),
        workload,
        excess,
        tuple(map(_sorted, extended)),
    )


def _sorted(pairs: Mapping[str, V]) -> tuple[tuple[str, V], ...]:
    return tuple(sorted(pairs.items()))


def _longest_unfiltered(signatures: Iterable[PodSignature], states: RequeueMemory) -> Sequence[PodSignature]:
    new = SignatureState()
    return sorted(signatures, key=lambda signature: states.get(signature, new).filtered_at)[:MAX_SIGNATURES_PER_PLAN]


def _next_state(
    signature: PodSignature, before: SignatureState | None, passing: frozenset[str], now: float
) -> SignatureState:
    """A new signature that uses the extender counts as refused everywhere until now; any other has gained nothing."""
    if before is None:
        before = SignatureState(frozenset() if signature.uses_extender else passing)
    if gained := sorted(passing - before.passing_nodes):
        return SignatureState(passing, now, gained[0], tuple(now + delay for delay in TOUCH_DELAYS_SECONDS))
    touch_times = before.touch_times if before.touch_node in passing else ()
    return SignatureState(passing, now, before.touch_node, touch_times)


def _take_due_touch(states: dict[PodSignature, SignatureState], now: float) -> TouchNode | None:
    """One touch for all that are due, which are struck off: it makes kube-scheduler retry every refused pod."""
    due = [signature for signature, state in states.items() if state.touch_times and state.touch_times[0] <= now]
    for signature in due:
        later = tuple(at for at in states[signature].touch_times if at > now)
        states[signature] = structs.replace(states[signature], touch_times=later)
    if not due:
        return None
    first = due[0]
    node = states[first].touch_node
    return TouchNode(node, f"node {node} now passes the filters for pods like {first.namespace}/{first.name}")
