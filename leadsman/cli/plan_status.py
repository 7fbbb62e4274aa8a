"""`leadsman plan status`: how far the plan of moves is that was handed over last.

Exit code: 0: it is done, or goes on; 1: it was refused or aborted, or there is none.
"""

import argparse

from controller.config_maps import DocumentObject
from leadsman.cli.flags.options import Options
from leadsman.cli.move_plans import handover_options, plan_text, read_progress, with_client
from leadsman.kube.client import ApiClient
from leadsman.published.move_plan import MOVE_PLAN, HandedOverPlan
from leadsman.published.moves import PlanProgress, RunState

EXIT_FINE, EXIT_NOT = 0, 1


def options(add: Options) -> None:
    handover_options(add)


def main(args: argparse.Namespace) -> int:
    """ValueError when the API server refuses, or what stands there cannot be read."""
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
