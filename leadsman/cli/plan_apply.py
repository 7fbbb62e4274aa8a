"""`leadsman plan apply FILE`: hand a plan of moves over to the controller; by default only say what would be done.

Exit code: 0: it was handed over, or could be; 1: it cannot be, and why is said.
"""

import argparse
import time

from msgspec import Struct

from controller.keeper import DocumentObject
from leadsman.cli.flags.options import Options
from leadsman.cli.flags.values import existing_file
from leadsman.cli.move_plans import handover_options, plan_text, read_plan, read_progress, with_client
from leadsman.cli.output import progress
from leadsman.cluster.model import Cluster
from leadsman.kube.client import ApiClient
from leadsman.kube.errors import NotFound
from leadsman.kube.names import PLACEHOLDER_NAMESPACE
from leadsman.kube.resources import PODS, RESOURCE_QUOTAS
from leadsman.planning.moves.plan_run import MovePlanLimits, why_refused
from leadsman.planning.moves.search import why_quota_refuses
from leadsman.published.moves import MOVE_PLAN, HandedOverPlan, MovePlan, is_under_way
from leadsman.sources.cluster.cluster_follower import ClusterAssembly
from leadsman.sources.cluster.cluster_objects import QuotaObject
from leadsman.sources.cluster.pod_object import PodObject

EXIT_DONE, EXIT_REFUSED = 0, 1


class _Handover(Struct):
    """Says what became of a handover. refused: why the plan cannot be handed over; "": it can. written: it was."""

    refused: str
    written: bool = False


class _Quotas(Struct):
    items: list[QuotaObject]


def options(add: Options) -> None:
    add.parser.add_argument("file", help="a plan that -o of a plan command wrote", type=existing_file, metavar="FILE")
    add.parser.add_argument(
        "--confirm",
        action="store_true",
        help="hand the plan over, which moves the pods (default: only say what would be done)",
    )
    handover_options(add)


def main(args: argparse.Namespace) -> int:
    """Runs the command. Raises ValueError when the file cannot be used, or the API server refuses."""
    plan = read_plan(args.file)
    print(plan_text(plan), end="")
    if not plan.moves:
        print(f"plan {plan.id} moves nothing, so there is nothing to hand over")
        return EXIT_DONE
    with progress("asks the API server about each move"):
        done = with_client(args, lambda client: _hand_over(client, plan, args))
    if done.refused:
        print(f"refused: {done.refused}")
        return EXIT_REFUSED
    if done.written:
        print(f"plan {plan.id} is handed over; `leadsman plan status` shows how far it is")
    else:
        print(f"plan {plan.id} could be applied; nothing was done. Add --confirm to hand it over")
    return EXIT_DONE


async def _hand_over(client: ApiClient, plan: MovePlan, args: argparse.Namespace) -> _Handover:
    plan_object = DocumentObject(client, args.namespace, MOVE_PLAN)
    before, run = await plan_object.read(), await read_progress(client, args.namespace)
    if before is not None and before.plan.id == plan.id:
        return _Handover("this very plan was handed over already; plan again")
    if is_under_way(before, run):
        return _Handover("another plan is being carried out; wait for its end, or `leadsman plan abort` it")
    cluster = await _read_cluster(client, plan)
    reason = why_refused(plan, set(cluster.pods), MovePlanLimits(), time.time()) or _why_quotas_refuse(plan, cluster)
    if args.confirm and not reason:
        await plan_object.write(HandedOverPlan(plan))
    return _Handover(reason, written=args.confirm and not reason)


async def _read_cluster(client: ApiClient, plan: MovePlan) -> Cluster:
    """Returns the plan's pods that still run, and the quotas that its moves need room in."""
    assembly = ClusterAssembly()
    for namespace, name in {(move.namespace, move.name) for move in plan.moves}:
        try:
            assembly.add("Pod", [await client.get(PODS.path(namespace, name), PodObject)])
        except NotFound:
            continue
    for namespace in {PLACEHOLDER_NAMESPACE, *(move.namespace for move in plan.moves)}:
        quotas = await client.get(RESOURCE_QUOTAS.path(namespace), _Quotas)
        assembly.add("ResourceQuota", quotas.items)
    return assembly.cluster


def _why_quotas_refuse(plan: MovePlan, cluster: Cluster) -> str:
    """Returns the first move that a quota would refuse now; "": none. The controller would wait for room, and then fail
    it."""
    for move in plan.moves:
        if reason := why_quota_refuses(cluster.pods[move.pod_uid], cluster):
            return f"pod {move.namespace}/{move.name} cannot be moved now: {reason}; raise the quota, or plan again"
    return ""
