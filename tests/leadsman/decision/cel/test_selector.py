"""Selectors of DeviceClasses and claims: the expressions of Kubernetes' documentation, and what has no value."""

import pytest

from leadsman.decision.cel import semver
from leadsman.decision.cel.functions import Kind
from leadsman.decision.cel.selector import Path, Selector, Typed
from leadsman.decision.cel.syntax import BadExpression
from leadsman.kube import quantity

DEPTHS: dict[Path, int] = {("device", "driver"): 0, ("device", "attributes"): 2, ("device", "capacity"): 2}
GPU = "gpu.example.com"
DEVICE: dict[Path, Typed] = {
    ("device", "driver"): (Kind.STRING, GPU),
    ("device", "attributes", GPU): (Kind.BOOL, True),
    ("device", "attributes", GPU, "model"): (Kind.STRING, "A100-SXM4"),
    ("device", "attributes", GPU, "index"): (Kind.INT, 1),
    ("device", "attributes", GPU, "healthy"): (Kind.BOOL, True),
    ("device", "attributes", GPU, "driverVersion"): (Kind.SEMVER, semver.parse("550.54.15")),
    ("device", "capacity", GPU, "memory"): (Kind.QUANTITY, quantity.parse("40Gi")),
}


def selects(expression: str) -> bool:
    return Selector(expression, DEPTHS).selects(DEVICE.get)


@pytest.mark.parametrize(
    "expression",
    [
        'device.driver == "gpu.example.com"',
        "device.attributes['gpu.example.com'].model.lowerAscii().matches('^a100')",
        "device.attributes['gpu.example.com'].index > 0 && device.attributes['gpu.example.com'].healthy",
        "device.capacity['gpu.example.com'].memory.compareTo(quantity('40Gi')) >= 0",
        "device.attributes['gpu.example.com'].driverVersion.isGreaterThan(semver('550.54.15-rc.2'))",
        "device.attributes['gpu.example.com'].driverVersion.major() in [535, 550]",
        "'gpu.example.com' in device.attributes && 'model' in device.attributes['gpu.example.com']",
        "has(device.attributes['gpu.example.com'].model) && !has(device.attributes['gpu.example.com'].colour)",
        "cel.bind(gpu, device.attributes['gpu.example.com'], gpu.healthy && gpu.index == 1)",
        "device.driver == 'other' || ['A100-SXM4', 'H100'].exists(m, m == device.attributes['gpu.example.com'].model)",
        "device.attributes['other.com'].colour == 'red' || device.driver.startsWith('gpu')",
    ],
)
def test_a_device_is_selected_where_the_expression_is_true(expression: str) -> None:
    assert selects(expression)
    assert not selects(f"!({expression})")


@pytest.mark.parametrize(
    "expression",
    [
        "device.attributes['gpu.example.com'].colour == 'red'",
        "device.attributes['gpu.example.com'].colour != 'red'",
        "device.attributes['gpu.example.com'].model > 3",
        "device.attributes['gpu.example.com'].model",
        "device.attributes['gpu.example.com'].index / 0 == 1",
    ],
)
def test_where_cel_has_an_error_nothing_is_selected(expression: str) -> None:
    assert not selects(expression)


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("device.colour == 'red'", "allowed device.driver, device.attributes"),
        ("device.attributes['gpu.example.com'] == 'red'", "allowed device.driver"),
        ("node.name == 'edge'", "allowed device.driver"),
        ("device.driver.reverse() == 'x'", "reverse()"),
        ("device.attributes['gpu.example.com'].?model.orValue('') == 'x'", "column"),
        ("device.driver.matches('(')", "the pattern cannot be used"),
        ("device.driver ==", "line 1, column"),
    ],
)
def test_what_cannot_be_evaluated_is_refused_with_its_position(expression: str, reason: str) -> None:
    with pytest.raises(BadExpression, match=r"line 1, column \d+: .*") as error:
        Selector(expression, DEPTHS)
    assert reason in str(error.value)


def test_one_selector_gives_each_device_its_own_verdict() -> None:
    selector = Selector("device.attributes['gpu.example.com'].index == 1", DEPTHS)
    path = ("device", "attributes", GPU, "index")
    verdicts = [
        selector.selects({**DEVICE, path: value}.get) for value in ((Kind.INT, 1), (Kind.INT, 2), (Kind.BOOL, True))
    ]
    assert verdicts == [True, False, False]


VERSIONS = [
    "1.0.0-2",
    "1.0.0-alpha",
    "1.0.0-alpha.1",
    "1.0.0-alpha.beta",
    "1.0.0-rc.1",
    "1.0.0",
    "1.0.1",
    "1.1.0",
    "2.0.0",
]


def test_versions_sort_as_semver_says() -> None:
    keys = [semver.parse(version) for version in VERSIONS]
    assert keys == sorted(keys)
    assert semver.parse("1.0.0+build.5") == semver.parse("1.0.0")


@pytest.mark.parametrize("text", ["1.0", "v1.0.0", "01.0.0", "1.0.0-", "", "1.0.0.0"])
def test_what_is_no_version_is_refused(text: str) -> None:
    with pytest.raises(semver.BadSemver, match="is no version"):
        semver.parse(text)
