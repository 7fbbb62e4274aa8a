"""`leadsman plan pause`: no further move begins, and what has not evicted its pod is undone."""

import argparse

from leadsman.cli.flags.options import Options
from leadsman.cli.move_plans import ask, handover_options
from leadsman.published.move_plan import PlanRequest


def options(add: Options) -> None:
    handover_options(add)


def main(args: argparse.Namespace) -> int:
    """ValueError when there is no plan, or the API server refuses."""
    return ask(args, PlanRequest.PAUSE)
