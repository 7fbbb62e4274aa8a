"""Any body gets 200 or a clean 4xx, and a 200 keeps the promise: a subset, each once, integers 0..10."""

import asyncio
import json
from collections import Counter

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from extender.wire.verbs import read_args
from leadsman.state.snapshot import Snapshot
from tests.extender.conftest import starts

SCALAR = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
ANYTHING = SCALAR | st.lists(SCALAR, max_size=3) | st.dictionaries(st.text(max_size=5), SCALAR, max_size=3)
NAME = st.sampled_from(["node-00000", "node-00001", "node-00002", "", "NODE", "ä/..", "\x00"]) | st.text(max_size=5)
LABEL = st.sampled_from(["delay_node-00000", "delay_", "app"]) | st.text(max_size=8)
LABELS = st.dictionaries(LABEL, st.text(max_size=9), max_size=3)
META = st.fixed_dictionaries({"name": NAME}, optional={"namespace": NAME, "uid": NAME, "labels": LABELS | ANYTHING})
POD = st.fixed_dictionaries({"metadata": META}, optional={"spec": ANYTHING}) | ANYTHING
NAMES = st.lists(NAME, max_size=8)
NODES = st.fixed_dictionaries({"items": st.lists(st.fixed_dictionaries({"metadata": META}), max_size=4) | ANYTHING})
META_VICTIMS = st.fixed_dictionaries({"Pods": st.lists(st.fixed_dictionaries({"UID": NAME}), max_size=3)})
VICTIMS = st.dictionaries(NAME, META_VICTIMS | ANYTHING, max_size=3)
BODY = st.fixed_dictionaries(
    {},
    optional={
        "Pod": POD,
        "pod": POD,
        "NodeNames": NAMES | ANYTHING,
        "nodenames": NAMES,
        "Nodes": NODES | ANYTHING,
        "NodeNameToMetaVictims": VICTIMS,
        "NodeNameToVictims": ANYTHING,
    },
) | st.fixed_dictionaries({"Pod": POD, "NodeNames": NAMES})
SOUND_POD = st.fixed_dictionaries({"metadata": st.fixed_dictionaries({"name": NAME}, optional={"labels": LABELS})})
SOUND = st.fixed_dictionaries({"Pod": SOUND_POD, "NodeNames": NAMES, "NodeNameToMetaVictims": st.just({})})
BYTES = (BODY | SOUND).map(lambda body: json.dumps(body).encode()) | st.binary(max_size=200)


async def test_no_body_gets_a_5xx_or_hangs(measured: Snapshot) -> None:
    tally = Counter[str]()
    async with starts(measured) as extender:
        for verb, body in await asyncio.to_thread(_drawn, 1000):
            async with asyncio.timeout(60):
                status, answer = await extender.post(verb, body)
            tally[f"{status // 100}xx"] += 1
            assert status in (200, 400, 404), body
            if status == 200:
                _check(verb, body, answer)
    assert tally["2xx"] > 200
    assert tally["4xx"] > 300


def _drawn(number):
    cases = []

    @settings(max_examples=number, database=None, derandomize=True,
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(st.sampled_from(("/filter", "/prioritize", "/preempt", "/bind", "/scheduler/filter")), BYTES)
    def draw(verb, body):
        cases.append((verb, body))

    draw()
    return cases


def _check(verb, body, answer):
    if verb == "/preempt":
        return
    asked = sorted(read_args(body).node_names)
    answer = json.loads(answer)
    if verb == "/prioritize":
        assert sorted(score["Host"] for score in answer) == asked
        assert all(type(score["Score"]) is int and 0 <= score["Score"] <= 10 for score in answer)
        return
    kept = answer["NodeNames"]
    if kept is None:
        kept = [node["metadata"]["name"] for node in answer["Nodes"]["items"]]
    assert len(kept) == len(set(kept))
    assert set(kept) | set(answer["FailedAndUnresolvableNodes"]) == set(asked)
    assert all(answer["FailedAndUnresolvableNodes"].values())
    assert answer["FailedNodes"] == {}
