"""The policy that is rolled out is one that the extender takes."""

from pathlib import Path

from leadsman.decision import policy


def test_it_states_the_defaults(root: Path) -> None:
    assert policy.parse((root / "daemonset/base/policy.yaml").read_text()) == policy.Policy()
