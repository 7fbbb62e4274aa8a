"""What a pod may say of its own reward, and one value out of a page of metrics."""

import pytest

from agent.pods import quality_observer
from agent.pods.quality_observer import InvalidAnnotation, parse_reward_metric
from leadsman.kube.names import DIRECTION_ANNOTATION, PATH_ANNOTATION, PORT_ANNOTATION, SERIES_ANNOTATION
from tests.agent.pods import given


def asking(**said):
    names = {
        "port": PORT_ANNOTATION,
        "path": PATH_ANNOTATION,
        "series": SERIES_ANNOTATION,
        "direction": DIRECTION_ANNOTATION,
    }
    return given.pod("Running", given.running(), annotations={names[name]: value for name, value in said.items()})


def test_a_metric_is_read_from_the_pod_s_own_address() -> None:
    found = parse_reward_metric(asking(port="9100", series="queue_seconds"))
    assert found.url == "http://10.244.1.7:9100/metrics"
    assert found.quality == "queue_seconds"
    assert found.cost(2.0) == 2.0


def test_higher_is_better_turns_the_cost_around() -> None:
    found = parse_reward_metric(asking(port="9100", path="/m", series="frames_per_second", direction="higher"))
    assert found.cost(4.0) == 0.25
    assert found.cost(0.0) == 0.0


def test_a_pod_without_annotations_or_with_the_host_s_address_has_none() -> None:
    assert parse_reward_metric(given.pod("Running", given.running())) is None
    on_host = {SERIES_ANNOTATION: "a", PORT_ANNOTATION: "10250"}
    assert parse_reward_metric(given.pod("Running", given.running(), annotations=on_host, ip="10.0.0.1")) is None


@pytest.mark.parametrize(
    ("said", "wrong"),
    [
        ({"series": "a"}, "reward-port"),
        ({"series": "a", "port": "70000"}, "70000"),
        ({"series": "a", "port": "80", "path": "http://elsewhere/"}, "begin with /"),
        ({"series": "a b", "port": "80"}, "reward-series"),
        ({"series": "a", "port": "80", "direction": "up"}, "lower or higher"),
    ],
)
def test_a_wrong_annotation_is_named_with_what_is_allowed(said, wrong: str) -> None:
    with pytest.raises(InvalidAnnotation, match=wrong):
        parse_reward_metric(asking(**said))


PAGE = """# HELP queue_seconds Time in the queue.
# TYPE queue_seconds gauge
queue_seconds{queue="in",zone="a"} 2
queue_seconds{queue="out",zone="a"} 4 1395066363000
queue_seconds_max 99
broken_seconds NaN
request_seconds_sum{path="/"} 30
request_seconds_count{path="/"} 10
"""


def read(text, page=PAGE):
    return quality_observer.evaluate_page(quality_observer.parse_expression(text), page)


def test_a_gauge_is_the_mean_of_its_samples() -> None:
    assert read("queue_seconds") == (3.0, None)


def test_labels_choose_among_them() -> None:
    assert read('queue_seconds{queue="out"}') == (4.0, None)


@pytest.mark.parametrize("text", ["absent", 'queue_seconds{queue="other"}', "broken_seconds", "queue_seconds / absent"])
def test_what_is_not_there_is_unknown(text: str) -> None:
    assert read(text) is None


def test_counters_tell_the_mean_of_what_came_since() -> None:
    text = "request_seconds_sum / request_seconds_count"
    later = PAGE.replace('sum{path="/"} 30', 'sum{path="/"} 36').replace('count{path="/"} 10', 'count{path="/"} 13')
    before, after = read(text), read(text, later)
    assert quality_observer.value_between(None, before) is None
    assert quality_observer.value_between(before, after) == pytest.approx(2.0)
    assert quality_observer.value_between(after, after) is None, "nothing happened"
    assert quality_observer.value_between(after, before) is None, "the counters restarted"


@pytest.mark.parametrize("text", ["", "1x", "a b", "a{b=1}", "a / ", "rate(a[5m])"])
def test_what_is_no_series_is_refused_with_what_is_wanted(text: str) -> None:
    with pytest.raises(InvalidAnnotation, match="must be name"):
        quality_observer.parse_expression(text)
