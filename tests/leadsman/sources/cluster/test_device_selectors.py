"""Selectors of DeviceClasses and claims: the expressions of Kubernetes' documentation, and what has no value."""

import pytest

from leadsman.sources.cluster import device_selectors
from leadsman.sources.cluster.device_objects import CapacityFields, DeviceAttribute, DeviceFields
from leadsman.sources.cluster.device_selectors import BadSelector, Selector

GPU = "gpu.example.com"
ATTRIBUTES = {
    "model": DeviceAttribute(string="A100-SXM4"),
    "index": DeviceAttribute(integer=1),
    "healthy": DeviceAttribute(boolean=True),
    "driverVersion": DeviceAttribute(version="550.54.15"),
    "node.example.com/rack": DeviceAttribute(string="r7"),
}
DEVICE = DeviceFields("gpu-0", attributes=ATTRIBUTES, capacity={"memory": CapacityFields("40Gi")})


def selects(expression: str) -> bool:
    return Selector(expression).selects(GPU, DEVICE)


@pytest.mark.parametrize(
    "expression",
    [
        'device.driver == "gpu.example.com"',
        "!device.allowMultipleAllocations",
        "device.attributes['gpu.example.com'].model.lowerAscii().matches('^a100')",
        "device.attributes['gpu.example.com'].index > 0 && device.attributes['gpu.example.com'].healthy",
        "device.capacity['gpu.example.com'].memory.compareTo(quantity('40Gi')) >= 0",
        "device.capacity['gpu.example.com'].memory.isLessThan(quantity('9007199254740993m'))",
        "device.capacity['gpu.example.com'].memory == quantity('40960Mi')",
        "device.attributes['gpu.example.com'].driverVersion.isGreaterThan(semver('550.54.15-rc.2'))",
        "device.attributes['gpu.example.com'].driverVersion.major() in [535, 550]",
        "device.attributes['gpu.example.com'].driverVersion == semver('550.54.15+build.5')",
        "semver('1.0.0-2').isLessThan(semver('1.0.0-alpha')) && semver('1.0.0-rc.1').isLessThan(semver('1.0.0'))",
        "isSemver('1.0.0-alpha.1') && !isSemver('1.0') && !isSemver('01.0.0') && !isSemver('1.0.0-')",
        "device.attributes['node.example.com'].rack == 'r7'",
        "'gpu.example.com' in device.attributes && 'model' in device.attributes['gpu.example.com']",
        "!('other.com' in device.attributes) && !has(device.attributes['other.com'].colour)",
        "!('other.com' in device.attributes) || device.attributes['other.com'].colour == 'red'",
        "has(device.attributes['gpu.example.com'].model) && !has(device.attributes['gpu.example.com'].colour)",
        "cel.bind(gpu, device.attributes['gpu.example.com'], gpu.healthy && gpu.index == 1)",
        "cel.bind(a, device.attributes[\"gpu.example.com\"], cel.bind(m, a.model + ',)', m == 'A100-SXM4,)'))",
        "device.driver == 'other' || ['A100-SXM4', 'H100'].exists(m, m == device.attributes['gpu.example.com'].model)",
        "device.attributes.exists(domain, domain == 'node.example.com')",
        "size(device.attributes['gpu.example.com']) == 4",
        "device.attributes['gpu.example.com']['mo' + 'del'] == 'A100-SXM4'",
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
        "device.attributes['gpu.example.com'].index.lowerAscii() == ''",
        "device.capacity['gpu.example.com'].memory.isGreaterThan(semver('1.0.0'))",
        "device.capacity['gpu.example.com'].memory.compareTo(quantity('much')) >= 0",
    ],
)
def test_where_cel_has_an_error_nothing_is_selected(expression: str) -> None:
    assert not selects(expression)
    assert not selects(f"!({expression})")


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("device.colour == 'red'", "device.colour is not known here"),
        ("node.name == 'edge'", "got node, allowed device"),
        ("device.driver.reverse() == 'x'", "reverse()"),
        ("device.attributes['gpu.example.com'].?model.orValue('') == 'x'", "1:37: unsupported syntax"),
        ("device.driver.matches('(')", "not a valid regex"),
        ("device.driver ==", "1:17: Syntax error"),
        ("", "Syntax error"),
        ("cel.bind(a, device.driver)", "cel.bind() takes a name"),
        ("cel.bind(a, device.driver, a == 'x'", "not closed"),
        ("(" * 300 + "1" + ")" * 300, "Recursion limit"),
        ("device.driver == 'a" + "a" * 1_024 + "'", "characters, allowed 1,024"),
        ("[1, 2].all(a, [1, 2].all(b, a == b))", "got 2 loops"),
        ("cel.bind(a, 'x', " * 9 + "a == 'x'" + ")" * 9, "more than 8 cel.bind()"),
    ],
)
def test_what_cannot_be_evaluated_is_refused_with_its_reason(expression: str, reason: str) -> None:
    with pytest.raises(BadSelector) as error:
        Selector(expression)
    assert reason in str(error.value)


def test_one_selector_gives_each_device_its_own_verdict() -> None:
    selector = Selector("device.attributes['gpu.example.com'].index == 1")
    values = (DeviceAttribute(integer=1), DeviceAttribute(integer=2), DeviceAttribute(boolean=True), DeviceAttribute())
    verdicts = [selector.selects(GPU, DeviceFields("gpu", attributes={"index": value})) for value in values]
    elsewhere = selector.selects("other.com", DeviceFields("gpu", attributes={"index": DeviceAttribute(integer=1)}))
    assert [*verdicts, elsewhere] == [True, False, False, False, False]


def test_without_the_extra_a_selector_is_not_evaluated_and_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(device_selectors, "library", lambda: None)
    with pytest.raises(BadSelector, match=r"leadsman\[dra\]"):
        Selector("device.driver == 'gpu.example.com'")
