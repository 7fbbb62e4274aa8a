"""A snapshot file that cannot be used is refused with the place in it, what stands there and what is allowed."""

import re

import pytest

from leadsman.sources.cluster_snapshot import BadSnapshot, read_snapshot

HEAD = '{"apiVersion": "leadsman.dev/v1alpha1", "kind": "ClusterSnapshot"'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1, column 1: Input data was truncated; must be JSON"),
        (HEAD + ',\n"pods": [{]}', "line 2, column 11: JSON is malformed: expected '\"'"),
        ("{}", '$.apiVersion: got ""; must be "leadsman.dev/v1alpha1"'),
        ('{"apiVersion": "leadsman.dev/v9"}', '$.apiVersion: got "leadsman.dev/v9"; must be "leadsman.dev/v1alpha1"'),
        (HEAD + ', "podz": []}', "$: object contains unknown field podz"),
        (HEAD + ', "nodes": [{"name": "a"}, {"name": 7}]}', "$.nodes[1].name: got 7; expected str, got int"),
        (HEAD + ', "nodes": [{"name": "a"}, {"name": "a"}]}', '$.nodes[1].name: got "a", as in $.nodes[0]; name each'),
        (
            HEAD + ', "pods": [{"uid": "u", "namespace": "n", "name": "p", "requests": {"cpu_millis": "1"}}]}',
            '$.pods[0].requests.cpu_millis: got "1"; expected int, got str',
        ),
        (
            HEAD + ', "inputs": {"policy": {"": {"delay": {"statistic": "p99"}}}}}',
            '$.inputs.policy..delay.statistic: got "p99"; invalid enum value',
        ),
        (HEAD + ', "inputs": {"colours": {"a": 1}}}', "$.inputs.colours.a: no such table"),
        (
            HEAD + ', "inputs": {"telemetry": {"loaded": true}}}',
            "$.inputs: KeyError('max_ages') is missing",
        ),
        (
            HEAD + ', "inputs": {"snapshot.nodes": {"a": {"latency": {"peers": {"b": {"sent": 1, "received": 2}}}}}}}',
            "$.inputs.snapshot.nodes.a.latency.peers[...]: received 2 of 1 probes sent",
        ),
        (
            HEAD + ', "delay_matrix": {"a": [0, 1], "b": [-2, 0]}}',
            "$.delay_matrix.b[0], to a: got -2; must be milliseconds, 0 to 60000",
        ),
        (
            HEAD + ', "delay_matrix": {"a": [0, 1], "b": [2]}}',
            "$.delay_matrix.b: got 1 round trips; must be 2, one for",
        ),
    ],
)
def test_it_says_where_what_and_what_is_allowed(text: str, message: str) -> None:
    with pytest.raises(BadSnapshot, match=re.escape(message)):
        read_snapshot(text.encode())


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(BadSnapshot, match="must be JSON"):
        read_snapshot(HEAD.encode() + b', "missing": {"\xff": "x"}}')
