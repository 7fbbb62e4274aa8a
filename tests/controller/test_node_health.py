"""Nodes are judged on every replica and shown; the whole controller publishes only with the flag."""

import asyncio
from typing import TYPE_CHECKING

from controller.node_health import NodeHealthReporter, NodeLeases
from leadsman.decision.inputs import DecisionInputs
from leadsman.decision.policy import Policy
from leadsman.kube.client import ApiClient
from leadsman.planning.failover.node_verdict import DetectionRules
from leadsman.runtime.token_bucket import TokenBucket
from leadsman.state.records import Heartbeat, PeerSilence, Reachability
from leadsman.state.snapshot import NodeState, Snapshot
from leadsman.testbed.fake_api_server import FakeApiServer
from tests.controller.followed import node_cache, tools

if TYPE_CHECKING:
    from tests.conftest import Until

NODES = ("n1", "n2", "n3", "n4")
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"


class Judged:
    """Four nodes that hear each other until n1 dies, judged without a cluster to write to; time is the test's."""

    def __init__(self, api: FakeApiServer, client: ApiClient) -> None:
        self.now, self._api, self._seq = 100.0, api, 0
        self.leases = NodeLeases(client, TokenBucket(1e6, 1000, lambda: self.now), lambda: self.now)
        self.states: dict[str, NodeState] = {}
        given = tools(client, None, self._inputs, clock=lambda: self.now)
        self.reporter = NodeHealthReporter(given, node_cache(*NODES), self.leases, DetectionRules())

    def _inputs(self) -> DecisionInputs:
        return DecisionInputs(Snapshot(self.states), Policy(), self.now)

    async def second(self, dead: tuple[str, ...], until: "Until") -> None:
        """Each living node reports and renews; then the nodes are judged."""
        self.now, self._seq = self.now + 1.0, self._seq + 1
        living = [name for name in NODES if name not in dead]
        for name in living:
            others = [other for other in NODES if other != name]
            losses = {other: 5 if other in dead else 0 for other in others}
            silences = {other: PeerSilence(5.0) for other in others if other in dead}
            report = Reachability(losses, silences, len(others), len(others) - len(silences))
            self.states[name] = NodeState(
                heartbeat=Heartbeat(1, self._seq, 5.0), changed_at=self.now, reachability=report
            )
            self._api.put(f"{LEASES}/{name}", {"spec": {"leaseDurationSeconds": 40, "renewTime": f"t{self._seq}"}})
        last = living[-1]
        await until(lambda: (view := self.leases.current.get(last)) is not None and view.changed_at == self.now)
        await self.reporter.turn()

    def samples(self, name: str) -> dict[tuple[str, ...], float]:
        families = [family for family in self.reporter.families() if family.name == name]
        return {tuple(each.labels.values()): each.value for family in families for each in family.samples}


async def test_a_death_is_shown_with_who_says_what(api: FakeApiServer, client: ApiClient, until: "Until") -> None:
    judged = Judged(api, client)
    task = asyncio.create_task(judged.leases.reflector.run())
    for _ in range(3):
        await judged.second((), until)
    assert judged.reporter.page()["reasons"] == {"NodeReachable": 4}
    for _ in range(16):
        await judged.second(("n1",), until)
    page = judged.reporter.page()
    assert page["verdicts"] == {"healthy": 3, "suspect": 0, "partition": 0, "dead": 1}
    signals, ages = (page["nodes"]["n1"][part] for part in ("signals", "timeline_seconds_ago"))
    assert signals["peers"]["evidence"] == tuple(f"n{number} lost 5 probes running" for number in (2, 3, 4))
    assert ages["first_lost"] > ages["suspect"] > ages["dead"]
    assert judged.samples("leadsman_node_suspect") == {("n1", "dead", "NodeDead"): 1.0}
    assert judged.samples("leadsman_node_verdict_changes")[("dead",)] == 1.0
    assert judged.leases.current["n1"].confirmed_at is not None
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
