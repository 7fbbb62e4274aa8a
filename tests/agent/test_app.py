"""What /config shows of the settings."""

import json

from agent.pods.monitor import PodSettings
from agent.run import redacted
from agent.settings import AgentSettings
from leadsman.kube.access import ApiAccess as ApiAccess
from leadsman.state.etcd_http import EtcdAccess


def test_no_token_or_key_is_shown() -> None:
    api = ApiAccess("https://api:6443", token="s3cret-token", key="s3cret-key")
    etcd = EtcdAccess(("http://etcd:2379",))
    shown = json.dumps(redacted(AgentSettings("edge-1", "10.0.0.1", "uid", etcd, pods=PodSettings(api))))
    assert "s3cret" not in shown
    assert "https://api:6443" in shown
