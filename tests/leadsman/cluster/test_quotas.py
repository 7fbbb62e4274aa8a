"""Whether a namespace's quotas admit one more pod."""

import pytest

from leadsman.cluster.budgets import Quota, QuotaScope
from leadsman.cluster.model import cluster_of
from leadsman.cluster.quotas import quota_refusals
from leadsman.cluster.resources import Resources
from tests.leadsman.cluster.conftest import MakePod

REQUESTS = Resources(100, 50, 1, {"example.com/gpu": 1})


def refused(pod, quota):
    return quota_refusals(cluster_of([], [], quotas=[quota]), pod)


@pytest.mark.parametrize(
    ("hard", "used", "reason"),
    [
        ({"pods": 2}, {"pods": 1}, ()),
        ({"pods": 2}, {"pods": 2}, ("quota q limits pods to 2: 2 is used and the pod adds 1",)),
        ({"requests.cpu": 150}, {}, ()),
        (
            {"requests.cpu": 150},
            {"requests.cpu": 60},
            ("quota q limits requests.cpu to 150: 60 is used and the pod adds 100",),
        ),
        (
            {"requests.example.com/gpu": 0},
            {},
            ("quota q limits requests.example.com/gpu to 0: 0 is used and the pod adds 1",),
        ),
        ({"requests.ephemeral-storage": 0, "services": 0}, {}, ()),
        ({"limits.cpu": 1000}, {}, ("quota q limits limits.cpu, of which the pod states none in its limits",)),
    ],
)
def test_what_a_quota_refuses(pod: MakePod, hard, used, reason) -> None:
    assert refused(pod("p", requests=REQUESTS), Quota("default", "q", hard, used)) == reason


@pytest.mark.parametrize(
    ("scope", "counts"),
    [
        (QuotaScope("NotTerminating"), True),
        (QuotaScope("Terminating"), False),
        (QuotaScope("NotBestEffort"), True),
        (QuotaScope("BestEffort"), False),
        (QuotaScope("PriorityClass", "In", ("low", "high")), True),
        (QuotaScope("PriorityClass", "NotIn", ("low",)), False),
        (QuotaScope("PriorityClass", "Exists"), True),
        (QuotaScope("PriorityClass", "DoesNotExist"), False),
        (QuotaScope("CrossNamespacePodAffinity"), False),
    ],
)
def test_a_scope_says_which_pods_count(pod: MakePod, scope: QuotaScope, counts: bool) -> None:
    quota = Quota("default", "q", {"pods": 0}, scopes=(scope,))
    assert bool(refused(pod("p", requests=REQUESTS, priority_class="low"), quota)) == counts
