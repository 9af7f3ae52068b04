import re

import pytest

from vscheduler.mirror import selectors
from vscheduler.mirror.selector_cost import ExprKind, Tree
from vscheduler.mirror.selectors import Selectors
from vscheduler.model.devices import AttributeValue, Device, SelectorError, Version

GPU = "gpu.example.com"
DEVICE = Device(
    name="gpu-0",
    attributes={
        f"{GPU}/model": "A100",
        f"{GPU}/numa": 3,
        f"{GPU}/nvlink": True,
        f"{GPU}/driver": Version("1.2.3-rc.1+build"),
        "pci.example.com/root": "0000:00",
    },
    capacity={f"{GPU}/memory": "80Gi"},
)
MINE = f'device.attributes["{GPU}"]'
MEMORY = f'device.capacity["{GPU}"].memory'


def said(expression: str) -> bool:
    """What the expression says of the device. Raises SelectorError."""
    (answer,), _ = Selectors().answers(expression, GPU, [DEVICE])
    if isinstance(answer, SelectorError):
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
        (f"{MINE}.map(a, {MINE}.map(b, {MINE}.map(c, c))) == []", "for a device; at most 3 ms"),
        ("'a'" + ".replace('a', 'aaaaaaaaaa')" * 8 + " == ''", "may take more than a second for"),
        (f"{MINE}.model.matches('{'(x*y*)' * 700}')", "ms for a device; at most 3 ms are spent on"),
        (r"'a'.matches('\\pL{1000}')", "may take more than a second for a device"),
        ("optional.of(1)" + ".optMap(x, x)" * 30 + " == 1", "more than 4 of optMap and optFlatMap"),
        ("[" + "1," * 2000 + "1] == []", "has 4007 words and signs; at most 1000 are read"),
        ("(" * 600 + "true" + ")" * 300, "recursion limit exceeded"),
        ('x == "' + '\\"' * 4000, "Syntax error"),
        ("quantity('1e101').sign() == 1", "has more than 100 digits"),
        ("quantity('1e99').add(quantity('1e-99')).add(quantity('9e99')) == 1", "than 100 digits"),
        ("'\ue000quantity:1e999999999'.sign() == 1", "is not a quantity"),
        ("'\ue000quantity:1/0'.sign() == 1", "is not a quantity"),
        (f"semver('1.2.3-{'1' * 300}').major() == 1", "a version has more than 256 characters"),
        ("'\ue000semver:1'.minor() == 1", "is not a semantic version"),
        ("true || " * 2000 + "true", "has more than 10240 characters"),
    ],
)
def test_expressions_that_are_refused(expression: str, error: str) -> None:
    """Each says what is wrong with it."""
    with pytest.raises(SelectorError, match=re.escape(error)):
        said(expression)


def test_loops_cost_more_than_comparisons() -> None:
    """By the number of attributes that a device may have, for each level."""
    loop, nested = (cost(each, MANY) for each in (LOOP, NESTED))
    assert loop > 2 * cost(f"{MINE}.model != ''", MANY)
    assert nested > 16 * (loop - cost(f"{MINE}.size() > 0", MANY))


def test_loops_cost_what_they_go_through() -> None:
    """An expression is charged for the attributes that the device has, and refused for those that
    one may have.
    """
    assert cost(NESTED, MANY) > 10 * cost(NESTED, ONE)
    assert cost(NESTED, MANY) > 5 * cost(NESTED, DEVICE)
    too_much = f"{MINE}.all(a, {MINE}.all(b, {MINE}.all(c, a != b || b != c)))"
    assert Selectors().problem(too_much)[0] is not None


LOOP = f"{MINE}.all(a, a != '')"
NESTED = f"{MINE}.all(a, {MINE}.all(b, a != b))"
ONE = Device(name="one", attributes={f"{GPU}/model": "A100"})
MANY = Device(
    name="many", attributes={f"{GPU}/a{n}": "x" for n in range(31)} | {f"{GPU}/model": "A100"}
)


def cost(expression: str, device: Device = DEVICE) -> int:
    """How many microseconds an evaluation is said to take."""
    known = Selectors()
    problem, _ = known.problem(expression)
    assert problem is None
    return known.answers(expression, GPU, [device])[1]


def test_what_takes_long_is_answered_for_some_devices() -> None:
    """The rest is left out, and asked about later."""
    known = Selectors()
    expression = f'{MINE}.uuid != ""'
    known.problem(expression)
    answers, paid = known.answers(expression, GPU, MODELS, 10 * cost(expression))
    assert 5 < len(answers) < 15
    assert paid < 12 * cost(expression)
    answers, _ = known.answers(expression, GPU, MODELS, 0)
    assert answers == [True], "always some, so that it ends"


def test_what_the_library_raises_is_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it is, when an expression is compiled and when it is evaluated."""

    class Broken:
        """A program that can't be evaluated, or an environment that can't compile."""

        def eval(self, data: object) -> None:
            """Fail as no documentation says."""
            raise KeyError(f"whatever {data}")

        def compile(self, text: str) -> None:
            """The same."""
            raise RecursionError(text)

    known = Selectors()
    broken = selectors._Compiled(Broken(), Tree(ExprKind.NOTHING), None, {})
    assert "whatever" in str(selectors._evaluated(broken, GPU, DEVICE))
    monkeypatch.setattr(selectors, "_environment", Broken)
    answers, _ = known.answers("true", GPU, [DEVICE])
    assert [str(answer) for answer in answers] == ["true"]


def test_compilation_is_paid_for_once() -> None:
    """In proportion to what is compiled, whether it can be used or not."""
    known = Selectors()
    for expression in ("true", "true || " * 300 + "true", "x == " * 300, "unknown(1)"):
        _, first = known.problem(expression)
        assert first > 300
        assert known.problem(expression)[1] == 0
    assert known.problem("false || " * 300 + "false")[1] > 10 * known.problem("false")[1]


MODELS = [
    Device(
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
    known = Selectors()
    expression = f'{MEMORY}.compareTo(quantity("80Gi")) >= 0'
    every, each = len(MODELS) * selectors.LOOKUP_COST, cost(expression) - selectors.LOOKUP_COST
    known.problem(expression)
    wanted = [number % 2 == 1 for number in range(100)]
    assert known.answers(expression, GPU, MODELS) == (wanted, every + 2 * each)
    assert known.answers(expression, GPU, MODELS) == (wanted, every)
    _, paid = known.answers(expression, "other.example.com", MODELS)
    assert paid == every + 2 * each


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
    answers, _ = Selectors().answers(expression, GPU, MODELS)
    assert [at for at, answer in enumerate(answers) if answer is True] == [7]


def test_true_and_one_are_different_values() -> None:
    """As keys of a dictionary, they are equal in Python, like 1.0 and a version's text."""
    values: list[AttributeValue] = [1, True, "1.0.0", Version("1.0.0")]
    found = [
        Device(name=f"d{at}", attributes={f"{GPU}/it": value}) for at, value in enumerate(values)
    ]
    known = Selectors()
    assert known.answers(f"type({MINE}.it) == bool", GPU, found)[0] == [False, True, False, False]
    parsed = known.answers(f'{MINE}.it == semver("1.0.0")', GPU, found)[0]
    assert parsed == [False, False, False, True]


def test_a_version_that_is_none_fails_for_its_device_alone() -> None:
    """No API server takes it, but a file for `vscheduler simulate` may have it."""
    name = f"{GPU}/driver"
    broken = Device(name="b", attributes={name: Version("one")})
    known = Selectors()
    assert known.answers("true", GPU, [broken, DEVICE])[0] == [True, True], "it isn't read"
    for expression in (f"{MINE}.driver.major() == 1", f'"driver" in {MINE}'):
        (failed, other), _ = known.answers(expression, GPU, [broken, DEVICE])
        assert other is True
        assert isinstance(failed, SelectorError)
        assert "'one' is not a semantic version" in str(failed)
