"""`leadsman plan status | pause | resume | abort`: how far the plan of moves is that was handed over last, and what the
controller is to do with it. A pause undoes a move that has not evicted its pod; after an abort, pods that were evicted
still land.

Exit code of `status`: 0: it is done, or goes on; 1: it was refused or aborted, or there is none.
"""

import argparse

from msgspec.structs import replace

from controller.keeper import DocumentObject
from leadsman.cli.flags.options import Options
from leadsman.cli.move_plans import handover_options, plan_text, read_progress, with_client
from leadsman.kube.client import ApiClient
from leadsman.published.documents import BadDocument
from leadsman.published.moves import MOVE_PLAN, HandedOverPlan, MovePlan, PlanProgress, PlanRequest, RunState

EXIT_FINE, EXIT_NOT = 0, 1

REQUESTS = {"pause": PlanRequest.PAUSE, "resume": PlanRequest.RUN, "abort": PlanRequest.ABORT}


def options(add: Options) -> None:
    handover_options(add)


def main(args: argparse.Namespace) -> int:
    """Runs the command. Raises ValueError when what stands there cannot be read; raises CommandFailed when the API
    server refuses."""
    if request := REQUESTS.get(args.plan):
        plan = with_client(args, lambda client: ask_controller(client, args.namespace, request))
        print(f"plan {plan.id}: asked to {request}; `leadsman plan status` shows what became of it")
        return EXIT_FINE
    handed_over, progress = with_client(args, lambda client: _read(client, args.namespace))
    if handed_over is None:
        print("no plan is handed over")
        return EXIT_NOT
    if progress is None or progress.plan != handed_over.plan.id:
        print(f"plan {handed_over.plan.id}: no controller has taken it up; is one running with --move-plans?")
        return EXIT_FINE
    why = f": {progress.note}" if progress.note else ""
    print(f"plan {progress.plan} is {progress.state}{why}")
    print(plan_text(handed_over.plan, progress), end="")
    return EXIT_NOT if progress.state in (RunState.ABORTED, RunState.REFUSED) else EXIT_FINE


async def _read(client: ApiClient, namespace: str) -> tuple[HandedOverPlan | None, PlanProgress | None]:
    return await DocumentObject(client, namespace, MOVE_PLAN).read(), await read_progress(client, namespace)


async def ask_controller(client: ApiClient, namespace: str, request: PlanRequest) -> MovePlan:
    """Writes what the controller shall do beside the plan. Raises BadDocument when there is no plan; raises Conflict or
    ApiError."""
    plan_object = DocumentObject(client, namespace, MOVE_PLAN)
    handed_over = await plan_object.read()
    if handed_over is None:
        raise BadDocument("no plan is handed over")
    await plan_object.write(replace(handed_over, request=request))
    return handed_over.plan
