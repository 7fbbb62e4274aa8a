"""Circuit breaker: refuses nodes on which pods of the type keep failing, until the last failure is some time ago.

Off by default. It never leaves a pod without a node: if it would refuse all candidates, it refuses none.
"""

from collections.abc import Mapping, Sequence

from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import Evidence, PodInfo, Refusal
from leadsman.decision.pod_type import pod_type_of
from leadsman.decision.policy import BreakerPolicy
from leadsman.decision.rewards import rewards_score
from leadsman.rewards import reward_updates
from leadsman.state.snapshot import AgedReward

NAME = "breaker"


class BreakerFilter:
    """The filter plugin of policy.breaker."""

    name = NAME

    def refusals(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> Mapping[str, Refusal]:
        settings, pod_type = inputs.policy.breaker, pod_type_of(pod)
        assessment = rewards_score.assess_type(pod_type, inputs) if settings.failures else None
        if assessment is None:
            return {}
        rewards = inputs.snapshot.rewards[pod_type]
        failing = [n for n in nodes if n in rewards and _is_failing(rewards[n], settings, inputs.now)]
        open_nodes = [n for n in failing if assessment.posteriors[n].blame_ratio >= settings.blame_ratio]
        if not open_nodes or len(open_nodes) == len(nodes):
            return {}
        return dict.fromkeys(open_nodes, Refusal(NAME, f"pods of type {pod_type} keep failing on the node"))

    def evidence(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> Evidence:
        """Nothing: the rewards score has the evidence."""
        return Evidence()


def _is_failing(aged: AgedReward, settings: BreakerPolicy, now: float) -> bool:
    """Whether there were enough failures and the last one is recent."""
    reward, age = aged.reward, aged.age_seconds(now)
    if reward.last_incident_seconds is None:
        return False
    failed = reward.failed * reward_updates.remaining_share(age, reward.half_life_seconds)
    since = max(0.0, reward.at_seconds - reward.last_incident_seconds) + age
    return failed >= settings.failures and since < settings.hold_seconds
