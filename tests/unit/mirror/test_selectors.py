import re

import pytest

from vscheduler.core.model import devices
from vscheduler.mirror import selectors

GPU = "gpu.example.com"
DEVICE = devices.Device(
    name="gpu-0",
    attributes={
        f"{GPU}/model": "A100",
        f"{GPU}/numa": 3,
        f"{GPU}/nvlink": True,
        f"{GPU}/driver": devices.Version("1.2.3-rc.1+build"),
        "pci.example.com/root": "0000:00",
    },
    capacity={f"{GPU}/memory": "80Gi"},
)
MINE = f'device.attributes["{GPU}"]'
MEMORY = f'device.capacity["{GPU}"].memory'


def said(expression: str) -> bool:
    """What the expression says of the device. Raises SelectorError."""
    (answer,), _ = selectors.Selectors().answers(expression, GPU, [DEVICE])
    if isinstance(answer, devices.SelectorError):
        raise answer
    return answer


@pytest.mark.parametrize(
    "expression",
    [
        f'device.driver == "{GPU}"',
        f'{MINE}.model == "A100" && {MINE}.numa >= 3 && {MINE}.nvlink',
        f"cel.bind(mine, {MINE}, mine.numa == 3 && mine.nvlink)",
        'device.attributes["pci.example.com"].root.startsWith("0000")',
        f"{MINE}.model.lowerAscii() in ['a100', 'h100'] // a comment",
        f'{MINE}.exists(name, name == "model")',
        f'{MEMORY}.compareTo(quantity("80Gi")) == 0',
        f'{MEMORY} == quantity("81920Mi")',
        f'{MEMORY}.isGreaterThan(quantity("79.5Gi")) && {MEMORY}.isLessThan(quantity("1Ti"))',
        'quantity("50k").add(20).sub(quantity("20")).asInteger() == 50000',
        'quantity("-1").sign() == -1 && quantity("1.5").asApproximateFloat() == 1.5',
        '!quantity("1.5").isInteger() && isQuantity("1.3Gi") && !isQuantity("1,3G")',
        f'{MINE}.driver.isLessThan(semver("1.2.3")) && {MINE}.driver.major() == 1',
        f'{MINE}.driver == semver("1.2.3-rc.1") && {MINE}.driver.patch() == 3',
        'semver("v01.2", true) == semver("1.2.0") && !isSemver("v1.0")',
        'semver("1.0.0-alpha.2").isLessThan(semver("1.0.0-alpha.10"))',
        'semver("1.0.0-2").isLessThan(semver("1.0.0-a"))',
        "!device.allowMultipleAllocations",
    ],
)
def test_expressions_that_are_true(expression: str) -> None:
    """In the words of Kubernetes' documentation."""
    assert said(expression)


@pytest.mark.parametrize(
    ("expression", "answer"),
    [
        ('has(device.attributes["other.example.com"].model)', False),
        ('device.attributes["other.example.com"].?model.orValue("none") == "none"', True),
        ('"other.example.com" in device.attributes', False),
        ("device.driver == 'attributes[\"x\"]'", False),
    ],
)
def test_domains_that_a_device_hasnt_are_empty(expression: str, *, answer: bool) -> None:
    """As in Kubernetes, which gives an empty map for them."""
    assert said(expression) is answer


@pytest.mark.parametrize(
    ("expression", "error"),
    [
        ("device.[", "1:8: Syntax error: no viable alternative at input '.['"),
        ("unknown(1)", "1:8: undeclared reference to 'unknown'"),
        ("1", "must be true or false, but is of type int"),
        ("device.driver", "is neither true nor false"),
        (f'{MINE}.absent == "x"', 'Key not found in map : "absent"'),
        (f"{MEMORY}.compareTo(semver('1.0.0')) == 0", "can't be compared with a version"),
        ('quantity("x") == quantity("1")', "'x' is not a quantity; write 500m, 4 or 16Gi"),
        (f"{MINE}.model.compareTo(quantity('1')) == 0", "is not a quantity"),
        (f"{MINE}.numa.minor() == 1", "is not a semantic version"),
        ("quantity('0.5').asInteger() == 0", "cannot convert value to integer"),
        (f"{MINE}.map(a, {MINE}.map(b, {MINE}.map(c, c))) == []", "has 3 loops, 3 in each other"),
        ("true || " * 2000 + "true", "has more than 10240 characters"),
    ],
)
def test_expressions_that_are_refused(expression: str, error: str) -> None:
    """Each says what is wrong with it."""
    with pytest.raises(devices.SelectorError, match=re.escape(error)):
        said(expression)


def test_loops_cost_more_than_comparisons() -> None:
    """By the number of attributes that a device may have, for each level."""
    known = selectors.Selectors()
    plain = known.cost("true")
    assert known.cost(f"{MINE}.exists(a, true)") == plain + selectors.ELEMENTS
    nested = f"{MINE}.exists(a, {MINE}.exists(b, a == b))"
    assert known.cost(nested) == plain + 2 * selectors.ELEMENTS**2


MODELS = [
    devices.Device(
        name=f"gpu-{number}",
        attributes={f"{GPU}/uuid": f"GPU-{number}", f"{GPU}/numa": number % 2},
        capacity={f"{GPU}/memory": f"{40 * (number % 2 + 1)}Gi"},
    )
    for number in range(100)
]
"""No two of them are equal, but an expression about memory sees two kinds."""


def test_an_expression_is_evaluated_once_for_all_that_look_the_same_to_it() -> None:
    """What it doesn't read makes no difference, and a device of a known kind costs next to nothing;
    another driver's devices are other ones.
    """
    known = selectors.Selectors()
    expression = f'{MEMORY}.compareTo(quantity("80Gi")) >= 0'
    every = len(MODELS) * selectors.LOOKUP_COST
    wanted = [number % 2 == 1 for number in range(100)]
    assert known.answers(expression, GPU, MODELS) == (wanted, every + 2 * selectors.COST)
    assert known.answers(expression, GPU, MODELS) == (wanted, every)
    _, cost = known.answers(expression, "other.example.com", MODELS)
    assert cost == every + 2 * selectors.COST


@pytest.mark.parametrize(
    "expression",
    [
        f'cel.bind(mine, {MINE}, mine.uuid == "GPU-7")',
        f'{MINE}.exists(name, {MINE}[name] == "GPU-7")',
        f'{MINE}["uuid"] == "GPU-7"',
        f'{MINE}.?uuid.orValue("") == "GPU-7"',
        f'cel.bind(device, device, device.attributes["{GPU}"].uuid == "GPU-7")',
        f'cel.bind(one, device, one.attributes["{GPU}"].uuid == "GPU-7")',
        f'device . attributes [ "{GPU}" ] . uuid == "GPU-7" // of device 7',
    ],
)
def test_whatever_an_expression_reads_makes_a_difference(expression: str) -> None:
    """However it is written."""
    answers, _ = selectors.Selectors().answers(expression, GPU, MODELS)
    assert [at for at, answer in enumerate(answers) if answer is True] == [7]


def test_true_and_one_are_different_values() -> None:
    """As keys of a dictionary, they are equal in Python, like 1.0 and a version's text."""
    values: list[devices.AttributeValue] = [1, True, "1.0.0", devices.Version("1.0.0")]
    found = [
        devices.Device(name=f"d{at}", attributes={f"{GPU}/it": value})
        for at, value in enumerate(values)
    ]
    known = selectors.Selectors()
    assert known.answers(f"type({MINE}.it) == bool", GPU, found)[0] == [False, True, False, False]
    parsed = known.answers(f'{MINE}.it == semver("1.0.0")', GPU, found)[0]
    assert parsed == [False, False, False, True]


def test_a_version_that_is_none_fails_for_its_device_alone() -> None:
    """No API server takes it, but a file for `vscheduler simulate` may have it."""
    name = f"{GPU}/driver"
    broken = devices.Device(name="b", attributes={name: devices.Version("one")})
    known = selectors.Selectors()
    assert known.answers("true", GPU, [broken, DEVICE])[0] == [True, True], "it isn't read"
    for expression in (f"{MINE}.driver.major() == 1", f'"driver" in {MINE}'):
        (failed, other), _ = known.answers(expression, GPU, [broken, DEVICE])
        assert other is True
        assert isinstance(failed, devices.SelectorError)
        assert "'one' is not a semantic version" in str(failed)
