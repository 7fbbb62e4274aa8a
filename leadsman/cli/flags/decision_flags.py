"""Flags of what decisions are made by, alike for extender and controller: the controller has a pod tried again when the
extender's answer may have changed."""

from leadsman.cli.flags.options import Options
from leadsman.cli.flags.values import existing_file


def options(add: Options) -> None:
    add.flag(
        "policy",
        "the policy file: the extender's weights and thresholds, reloaded when it changes",
        None,
        existing_file,
    )
    add.switch(
        "devices",
        "follow the devices of nodes and pods: an extender reserves bandwidth and parts of devices, a controller has "
        "refused pods tried again when there is room (docs/devices.md)",
    )
