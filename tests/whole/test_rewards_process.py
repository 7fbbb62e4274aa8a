"""The rewards' cache with a real agent process, a real etcd and kill -9."""

import base64
import json

from leadsman.testbed.etcd import Etcd
from tests.testbed.scripted_api_server import ApiServerThread
from tests.whole.conftest import Start, Until

CRASHES = 'leadsman_incidents_total{cause="crash",type="shop"}'


def pod(restarts: int) -> dict:
    last = {"terminated": {"exitCode": 1, "reason": "Error"}} if restarts else {}
    running = {"running": {"startedAt": "2026-03-01T12:00:00Z"}}
    container = {"name": "app", "restartCount": restarts, "ready": True, "state": running, "lastState": last}
    return {
        "metadata": {"labels": {"app": "shop"}},
        "spec": {"nodeName": "edge-1", "containers": [{"name": "app"}]},
        "status": {"phase": "Running", "containerStatuses": [container]},
    }


def reward(etcd) -> dict:
    """What etcdctl would show of edge-1's reward for the type shop."""
    key = base64.b64encode(b"/leadsman/v1/nodes/edge-1/rewards/shop").decode()
    found = etcd.post("/v3/kv/range", {"key": key}).get("kvs", [])
    return json.loads(base64.b64decode(found[0]["value"])) if found else {}


def test_killed_again_and_again_while_a_pod_crashes_every_crash_is_counted_once(
    agent: Start, api: ApiServerThread, etcd: Etcd, until: Until
) -> None:
    """The agent is killed at moments it does not choose: between seeing and writing, too."""
    where = "/api/v1/namespaces/d/pods/shop-0"
    api.put(where, pod(0))
    follow = ("--kube-api", api.url, "--owner", "pod-1")
    one = agent("edge-1", 1, *follow)
    until(lambda: one.metric("leadsman_pods") == 1, "the pod seen")
    api.put(where, pod(2))
    until(lambda: reward(etcd).get("incidents") == {"crash": 2}, "two crashes in etcd")
    one.kill()
    api.put(where, pod(5))
    one = agent("edge-1", 1, *follow)
    until(lambda: reward(etcd)["incidents"] == {"crash": 5}, "the crashes that nobody watched")
    assert one.metric(CRASHES) == 3
    api.put(where, pod(6))
    until(lambda: one.metric(CRASHES) == 4, "it is seen")
    one.kill()
    one = agent("edge-1", 1, *follow)
    until(lambda: one.metric("leadsman_pods") == 1, "the pod seen")
    until(lambda: reward(etcd)["incidents"] == {"crash": 6}, "six crashes")
    assert one.stop() == 0
    assert reward(etcd)["incidents"] == {"crash": 6}, "kept when the agent leaves"
