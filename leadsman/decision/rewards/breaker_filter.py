"""Circuit breaker: no pod of a type goes where that type keeps failing, until the last failure is some time ago.

Off by default. It never leaves a pod without a node: if it would refuse all that are left, it refuses none.
"""

from collections.abc import Mapping, Sequence

from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.model import Evidence, PodInfo, Refusal
from leadsman.decision.policy import BreakerPolicy
from leadsman.decision.rewards import rewards_score
from leadsman.rewards import reward_updates
from leadsman.state.reward_view import AgedReward

NAME = "breaker"


class BreakerFilter:
    name = NAME

    def refusals(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> Mapping[str, Refusal]:
        settings, pod_type = inputs.policy.breaker, rewards_score.pod_type_of(pod)
        found = rewards_score.assess_type(pod_type, inputs) if settings.failures else None
        if found is None:
            return {}
        remembered = inputs.snapshot.rewards[pod_type]
        failing = [n for n in nodes if n in remembered and _is_failing(remembered[n], settings, inputs.now)]
        open_nodes = [n for n in failing if found.posteriors[n].blame_ratio >= settings.blame_ratio]
        if not open_nodes or len(open_nodes) == len(nodes):
            return {}
        return dict.fromkeys(open_nodes, Refusal(NAME, f"pods of type {pod_type} keep failing on the node"))

    def evidence(self, pod: PodInfo, nodes: Sequence[str], inputs: DecisionInputs) -> Evidence:
        """Nothing that the rewards score does not tell."""
        return Evidence()


def _is_failing(remembered: AgedReward, settings: BreakerPolicy, now: float) -> bool:
    """Whether there were failures enough and the last one is recent."""
    reward, age = remembered.reward, remembered.age_seconds(now)
    if reward.last_incident_seconds is None:
        return False
    failed = reward.failed * reward_updates.remaining_share(age, reward.half_life_seconds)
    since = max(0.0, reward.at_seconds - reward.last_incident_seconds) + age
    return failed >= settings.failures and since < settings.hold_seconds
