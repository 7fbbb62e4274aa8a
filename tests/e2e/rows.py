"""The rows of the end-to-end table: how Leadsman is installed, what is done then, and what is promised about it."""

from collections.abc import Callable

from msgspec import Struct

from tests.e2e import chart, disturbances, tutorial
from tests.e2e.cluster import Cluster
from tests.e2e.demos import edge_scheduler, kuberl, page_is_reached, telemetry
from tests.e2e.devices import devices_are_given
from tests.e2e.disturbances import (
    AWAY_SECONDS,
    lose,
    take_api_server_away,
    take_extenders_away,
    update,
    while_pods_wait,
)
from tests.e2e.healing import cut_network, deaths_of, stop_kubelet, withstands
from tests.e2e.moving import drain_by_plan, rebalance
from tests.e2e.rollout import Rollout

LOST_EXTENDER = 3
"""With `ignorable: true`: what kube-scheduler asked a replica whose node has just died (docs/deploying.md)."""


class Row(Struct, frozen=True):
    """Something that is done while bounded pods are sent.

    name: for `--rows`.
    may_be_misplaced: pods bound elsewhere than their bound allows, that break no promise of ours. None: any number, if
        the Event BoundUnchecked names each.
    times: how often it is done; what takes seconds says little once.
    scheduler: as the pods name it.
    away_seconds: for how long the row itself takes all extenders away.
    """

    name: str
    title: str
    disturb: disturbances.Disturbance
    may_be_misplaced: int | None = 0
    times: int = 1
    scheduler: str = "default-scheduler"
    away_seconds: float = 0.0


class Demo(Struct, frozen=True):
    """Something that is shown without a stream. show: returns what was seen, and raises when it is not as promised."""

    name: str
    title: str
    show: Callable[[Cluster, Rollout], str]


class Installation(Struct, frozen=True):
    """A way to install Leadsman, and the rows on it. All of it is removed before the next one.

    is_released: whether a release's folder has all that it needs.
    """

    title: str
    install: Callable[[Rollout], None]
    remove: Callable[[Rollout], str]
    rows: tuple[Row | Demo, ...]
    is_released: bool = False


INSTALLATIONS = (
    Installation(
        "kustomize",
        Rollout.install,
        Rollout.remove,
        (
            Row("extender", "rolling update of the extender", update("deployment/leadsman-extender"), 0, 4),
            Row("agents", "rolling update of the agents", update("daemonset/leadsman-agent"), 0, 2),
            Row("controller", "rolling update of the controller", update("deployment/leadsman-controller"), 0, 3),
            Row("etcd", "rolling update of etcd", disturbances.update_etcd, 0, 3),
            Row("drain", "drain of a node with an extender", disturbances.drain, 0, 3),
            Row("lose-agent", "loss of a node with only an agent", lose("agent")),
            Row("lose-extender", "loss of an extender's node, `ignorable: true`", lose("extender"), LOST_EXTENDER),
            Row(
                "lose-extender-strict",
                "loss of an extender's node, `ignorable: false`",
                while_pods_wait(lose("extender")),
            ),
            Row(
                "lose-leader",
                "loss of the leading controller's node, `ignorable: false`",
                while_pods_wait(lose("controller")),
            ),
            Row("lose-etcd", "loss of an etcd member's node, `ignorable: false`", while_pods_wait(lose("etcd"))),
            Row(
                "all-extenders-away",
                "all extenders away for 25 s, `ignorable: true`",
                take_extenders_away,
                None,
                away_seconds=AWAY_SECONDS,
            ),
            Row(
                "all-extenders-away-strict",
                "all extenders away for 25 s, `ignorable: false`",
                while_pods_wait(take_extenders_away),
                away_seconds=AWAY_SECONDS,
            ),
            Row("certificates", "renewal of the certificates", disturbances.renew_certificates),
            Row("api-server", "API server away for 10 s", lambda cluster, _: take_api_server_away(cluster, 10), 0, 2),
            Row("tokens", "new key of ServiceAccount tokens", disturbances.rotate_tokens),
            Row("reboot-all", "all nodes lose their power, and boot", disturbances.reboot_all, None),
            Demo("page", "the page, forwarded", page_is_reached),
            Demo("kuberl", "kubeRL's demo", kuberl),
            Demo("edge", "the edge scheduler's demo", edge_scheduler),
            Demo("telemetry", "Telemetry Aware Scheduling's demo", telemetry),
        ),
    ),
    Installation(
        "Helm",
        chart.install_chart,
        chart.remove_chart,
        (
            Demo("locked", "etcd is locked", chart.is_locked),
            Row("chart", "rolling update of all parts of the chart", disturbances.update_all),
            Row("helm-upgrade", "`helm upgrade` to other values, and back", chart.upgrade_and_back),
            Row("helm-upgrade-parts", "`helm upgrade` of one part after another", chart.upgrade_by_parts),
            Demo("reinstall", "removal, installation and `helm upgrade`: all members of etcd equal", chart.reinstall),
            Demo("devices", "devices of a device plugin", devices_are_given),
        ),
        True,
    ),
    Installation(
        "Helm, as the tutorial has it",
        tutorial.install,
        tutorial.remove,
        (Demo("tutorial", "the tutorial, from its third step", tutorial.walk),),
    ),
    Installation(
        "Helm, profile self-healing, with the second scheduler",
        chart.install_healing,
        chart.remove_chart,
        (
            Row("node-dies", "death of a node with bounded pods", deaths_of("agent")),
            Row("leader-dies", "death of the leading controller's node", deaths_of("controller"), LOST_EXTENDER),
            Row("etcd-node-dies", "death of an etcd member's node", deaths_of("etcd"), LOST_EXTENDER),
            Row("two-die", "death of two nodes at once", deaths_of("agent", "etcd"), 2 * LOST_EXTENDER),
            # An extender on the node is lost for 8 s.
            Row("network-cut", "network cut for 8 s, 3 times", withstands(cut_network), LOST_EXTENDER),
            Row("kubelet-stopped", "kubelet stopped for 60 s", withstands(stop_kubelet)),
            Row(
                "api-server-away",
                "API server away for 30 s",
                withstands(lambda cluster, _: take_api_server_away(cluster, 30)),
            ),
            Row(
                "second-scheduler",
                "rolling update of the second scheduler",
                update("deployment/leadsman-scheduler"),
                0,
                2,
                "leadsman-scheduler",
            ),
            Row(
                "lose-second-scheduler",
                "loss of the second scheduler's leader's node",
                lose("scheduler"),
                LOST_EXTENDER,
                1,
                "leadsman-scheduler",
            ),
            Row("drain-plan", "drain by a plan", drain_by_plan),
            Row("rebalance", "rebalancing with a PodDisruptionBudget", rebalance),
        ),
        True,
    ),
)
"""In this order, each between its installation and its removal: the surest first."""

SOAKED = tuple(
    row
    for each in (INSTALLATIONS[0], INSTALLATIONS[-1])
    for row in each.rows
    if isinstance(row, Row) and row.may_be_misplaced is not None and row.name != "certificates"
)
"""Whatever is no change of the installation, with `ignorable: false`: nothing may be misplaced."""

REMOVAL = "uninstall"


def names(released: bool) -> list[str]:
    """Of rows; REMOVAL is what ends each installation. released: of those that a release's folder is enough for."""
    installations = [each for each in INSTALLATIONS if each.is_released or not released]
    return [*(row.name for each in installations for row in each.rows), REMOVAL]
