"""What the leading controller plans, as it says itself."""

from collections.abc import Sequence

from extender.api.contract.cluster import Plan, WithheldAction
from extender.api.contract.decisions import SilentReplica
from extender.api.moments import iso
from extender.api.replica_answers import ask_replicas, names_of
from extender.peers.client import PeerClient
from leadsman.published.plan_summary import PlanSummary

NOT_ASKED = (
    "this extender does not ask the controllers; the component shared-plan (chart: controller.sharedPlan=true) lets it"
)
NO_LEADER = (
    "no controller leads now: each waits for the Lease; it is taken within seconds unless the API server is away"
)


async def current_plan(controllers: PeerClient | None) -> Plan:
    """Asks each controller. controllers: None: they are not asked."""
    if controllers is None:
        return _unknown(NOT_ASKED)
    answers, silent = await ask_replicas(controllers, "/plan", {}, PlanSummary)
    leading = [(name, each) for name, each in answers if each.is_leader]
    if not leading:
        return _unknown(_why_unknown(len(answers), silent), silent)
    leader, summary = max(leading, key=lambda each: each[1].at)
    return Plan(
        "",
        leader,
        iso(summary.at),
        summary.is_dry_run,
        summary.actions,
        [WithheldAction(each.kind, each.object, each.reason, each.why, iso(each.since)) for each in summary.withheld],
        summary.stopped,
        summary.unplanned,
        summary.left_out,
        silent,
    )


def _unknown(why: str, silent: Sequence[SilentReplica] = ()) -> Plan:
    return Plan(why, None, None, False, (), (), (), (), 0, silent)


def _why_unknown(answers: int, silent: Sequence[SilentReplica]) -> str:
    if silent:
        return f"the controller that leads does not answer, or none leads: {names_of(silent)}"
    return NO_LEADER if answers else "no controller runs: the name that leads to them has no address"
