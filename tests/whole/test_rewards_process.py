"""The rewards' cache with a real agent process, a real etcd and kill -9."""

from leadsman.testbed.etcd import Etcd
from tests.testbed.scripted_api_server import ApiServerThread
from tests.waiting import blocked_until as until
from tests.whole.conftest import Start, reward, shop_pod

CRASHES = 'leadsman_incidents_total{cause="crash",type="shop"}'


def test_killed_again_and_again_while_a_pod_crashes_every_crash_is_counted_once(
    agent: Start, api: ApiServerThread, etcd: Etcd
) -> None:
    """The agent is killed at moments it does not choose: between seeing and writing, too."""
    where = "/api/v1/namespaces/d/pods/shop-0"
    api.put(where, shop_pod(restarts=0))
    follow = ("--kube-api", api.url, "--owner", "pod-1")
    one = agent("edge-1", 1, *follow)
    until(lambda: one.metric("leadsman_pods") == 1, "the pod seen")
    api.put(where, shop_pod(restarts=2))
    until(lambda: reward(etcd).get("incidents") == {"crash": 2}, "two crashes in etcd")
    one.kill()
    api.put(where, shop_pod(restarts=5))
    one = agent("edge-1", 1, *follow)
    until(lambda: reward(etcd)["incidents"] == {"crash": 5}, "the crashes that nobody watched")
    assert one.metric(CRASHES) == 3
    api.put(where, shop_pod(restarts=6))
    until(lambda: one.metric(CRASHES) == 4, "it is seen")
    one.kill()
    one = agent("edge-1", 1, *follow)
    until(lambda: one.metric("leadsman_pods") == 1, "the pod seen")
    until(lambda: reward(etcd)["incidents"] == {"crash": 6}, "six crashes")
    assert one.stop() == 0
    assert reward(etcd)["incidents"] == {"crash": 6}, "kept when the agent leaves"
