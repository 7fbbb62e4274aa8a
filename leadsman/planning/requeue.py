"""Plans which node to touch so that kube-scheduler retries pods that the extender refused, once the cause is gone.

kube-scheduler retries a refused pod when a label or an annotation of a node changes (seen on 1.36.2), otherwise after
five minutes. So the plan filters nodes for each pod that waits, as the extender would now. Where a node passes that did
not pass before, that node is to be touched; one touch makes kube-scheduler retry every refused pod.

The extender may see the change a moment later than this planner and refuse once more, so two more touches follow.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from leadsman.cluster.model import ClusterPod
from leadsman.decision.decide import filter_nodes
from leadsman.decision.devices.device_filter import needs_reservation
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import CandidateNodes, PodInfo
from leadsman.kube.bounded_metadata import BoundedLabels
from leadsman.kube.names import DELAY_LABEL_PREFIX, DOMAIN, POLICY_LABEL
from leadsman.planning.situation import Judge, workload_key

TOUCH_DELAYS_SECONDS = (0.0, 5.0, 30.0)
"""A node is touched so long after it was first seen to pass."""


MAX_SIGNATURES = 2_000
"""Remembered, each with the nodes that pass: 0.3 MB at 5,000 nodes where no two have the same. Pods of others are
retried by kube-scheduler itself, every five minutes."""

EXTENDER_KEY_PREFIXES = (DELAY_LABEL_PREFIX, f"{DOMAIN}/", POLICY_LABEL)

Signature = bytes
"""Says what decides on the extender's answer for a pod, encoded: pods with one signature get one answer."""


class SignatureState(Struct, frozen=True):
    """Says what is remembered of a signature from one plan to the next.

    pod: any of its pods, as `without_own` has it.
    passing_nodes: those that passed when last filtered; None: it was not filtered yet.
    filtered_at: monotonic seconds of that.
    touch_node: the node to touch.
    touch_times: monotonic seconds of the touches to come.
    """

    pod: PodInfo
    passing_nodes: frozenset[str] | None = None
    filtered_at: float = float("-inf")
    touch_node: str = ""
    touch_times: tuple[float, ...] = ()


RequeueMemory = Mapping[Signature, SignatureState]

NO_MEMORY: RequeueMemory = {}


class TouchNode(Struct, frozen=True):
    """The one action: change an annotation of `node`. It must still exist; a touch too many does no harm."""

    node: str
    reason: str


class RequeuePlan(Struct, frozen=True):
    """The nodes to touch now, so that pods are tried again.

    action: None: nothing.
    faults: what plugins raised, with a note for which pods; such pods are not retried early.
    memory: for the next plan.
    """

    action: TouchNode | None
    faults: tuple[Exception, ...]
    memory: RequeueMemory


def plan_requeue(
    pods: Iterable[ClusterPod],
    nodes: Sequence[str],
    inputs: DecisionInputs,
    memory: RequeueMemory,
    judge: Judge = filter_nodes,
    has_time: Callable[[], bool] = lambda: True,
) -> RequeuePlan:
    """Filters `nodes` for the pods, and plans a touch where a node passes that did not before.

    pods: those that kube-scheduler tried and found no node for.
    judge: how the extender filters nodes.
    has_time: asked before each signature; those that it leaves out come first in the next plan.
    """
    alike = (without_own(pod, sees_labels=bool(inputs.policy.plugins.filters)) for pod in pods)
    waiting = {msgspec.json.encode(pod, order="sorted"): pod for pod in alike}
    remembered_first = sorted(waiting, key=lambda each: each not in memory)[:MAX_SIGNATURES]
    states = {each: memory.get(each) or SignatureState(waiting[each]) for each in remembered_first}
    faults: list[Exception] = []
    candidates = CandidateNodes.of(nodes)
    shared = {state.passing_nodes: state.passing_nodes for state in states.values() if state.passing_nodes is not None}
    longest_unfiltered = sorted(states, key=lambda each: states[each].filtered_at)
    for signature in longest_unfiltered:
        if not has_time():
            break
        state = states[signature]
        try:
            passing = frozenset(judge(state.pod, candidates, inputs).kept)
        except Exception as fault:  # A plugin's: it costs these pods their early retry, and nothing else.
            fault.add_note(f"raised while filtering nodes for pods like {state.pod.namespace}/{state.pod.name}")
            faults.append(fault)
            states[signature] = replace(state, filtered_at=inputs.now)
        else:
            states[signature] = _next_state(state, shared.setdefault(passing, passing), inputs)
    return RequeuePlan(_take_due_touch(states, inputs.now), tuple(faults), states)


def without_own(pod: ClusterPod, *, sees_labels: bool = False) -> PodInfo:
    """Returns the pod without what only it has, so that the pods of one owner are alike.

    sees_labels: whether somebody reads labels that Leadsman itself does not, as plugins do.
    """
    info = PodInfo.of(pod)
    labels = info.labels if sees_labels else BoundedLabels.read_of(info.labels)
    return replace(info, uid="", name=workload_key(pod)[1] or pod.name, labels=labels)


def _uses_extender(pod: PodInfo, inputs: DecisionInputs) -> bool:
    """Tells whether a label or annotation on it is only there for the extender, or the extender counts its devices."""
    own = any(key.startswith(EXTENDER_KEY_PREFIXES) for key in (*pod.labels, *pod.annotations))
    return own or needs_reservation(pod, inputs)


def _next_state(before: SignatureState, passing: frozenset[str], inputs: DecisionInputs) -> SignatureState:
    """Returns a new signature that uses the extender counts as refused everywhere until now; any other has gained
    nothing."""
    passed, now = before.passing_nodes, inputs.now
    if passed is None:
        passed = frozenset() if _uses_extender(before.pod, inputs) else passing
    if gained := sorted(passing - passed):
        return SignatureState(before.pod, passing, now, gained[0], tuple(now + delay for delay in TOUCH_DELAYS_SECONDS))
    touch_times = before.touch_times if before.touch_node in passing else ()
    return SignatureState(before.pod, passing, now, before.touch_node, touch_times)


def _take_due_touch(states: dict[Signature, SignatureState], now: float) -> TouchNode | None:
    """Returns one touch for all that are due, which are struck off: it makes kube-scheduler retry every refused pod."""
    due = [signature for signature, state in states.items() if state.touch_times and state.touch_times[0] <= now]
    for signature in due:
        later = tuple(at for at in states[signature].touch_times if at > now)
        states[signature] = replace(states[signature], touch_times=later)
    if not due:
        return None
    first = states[due[0]]
    reason = f"node {first.touch_node} now passes the filters for pods like {first.pod.namespace}/{first.pod.name}"
    return TouchNode(first.touch_node, reason)
