import time

import pytest

from vscheduler.mirror import selector_cost, selectors
from vscheduler.model.devices import AttributeValue, Device, Version

GPU = "gpu.example.com"
A = f'device.attributes["{GPU}"]'
MEMORY = f'device.capacity["{GPU}"].memory'


def compiled(expression: str) -> bytes:
    """The expression as the library serializes it."""
    text = selectors.read_text(expression).text
    serialized: bytes = selectors._environment().compile(text).serialize()
    return serialized


def estimate(expression: str) -> int:
    """How many microseconds the expression may take, even if it is refused for that."""
    return selector_cost.estimate(selector_cost.tree_of(compiled(expression)))


@pytest.mark.parametrize(
    ("expression", "times"),
    [
        ("'{}' == ''", 1),
        ("'a'.replace('a', '{}') == ''", 1),
        ("'{}'.replace('a', '{}') == ''", 2),
        ("cel.bind(x, '{}', x.replace('', x).replace('', x)) == ''", 3),
        ("['{}', '{}'].join('{}') == ''", 1),
        ("'{}'.split('').join('{}') == ''", 2),
        ("'%s'.format(['{}']) == ''", 1),
        ("['{}'].map(x, x + x).all(x, x.replace('a', x) == '')", 2),
        ("'{}'.split('').map(x, '{}').join('').replace('a', '{}') == ''", 3),
        ("'{}'.split('').all(x, '{}'.split('') != [x])", 3),
        ("'{}'.split('').all(x, '{}'.split('').all(y, x != y))", 2),
    ],
)
def test_what_is_written_grows_with_the_texts(expression: str, times: int) -> None:
    """By the power of their length that the functions can make of it, and never by less."""
    small, large = (estimate(expression.replace("{}", "a" * size)) for size in (80, 800))
    assert large > 0.5 * (small - 60) * 10**times


def test_a_value_of_any_size_has_an_estimate() -> None:
    """Squared so often that no number of a machine can say it."""
    text = "'aaaaaaaaaaaaaaaa'"
    for _ in range(10):
        text = f"cel.bind(x, {text}, x.replace('a', x))"
    assert estimate(f"{text} == ''") > 10**6


@pytest.mark.parametrize(
    ("pattern", "least", "most"),
    [
        ("GPU-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", 32, 500),
        ("(a{30}){30}", 900, 1100),
        ("((ab){2,5}x){3}", 33, 80),
        ("(?i)(?:[^a]|.)*", 20, 300),
        (r"\pL+[\p{Greek}x]", 2 * selector_cost.UNICODE_CLASS, 3 * selector_cost.UNICODE_CLASS),
        (")){5}((", 1, 100),
    ],
)
def test_instructions_of_regular_expressions(pattern: str, least: int, most: int) -> None:
    """Repetitions multiply what is within them, and no more than that."""
    assert least <= selector_cost._instructions(pattern) <= most


EXPRESSIONS = [
    "true",
    f'device.driver == "{GPU}"',
    f"{A}.n >= 0",
    f'{A}.model == "A" || {A}.n == 3',
    f'{MEMORY}.compareTo(quantity("40Gi")) >= 0',
    f'{A}.v.isGreaterThan(semver("1.2.0"))',
    f'{A}.model.startsWith("NVIDIA") && {A}.n < 8',
    f'{A}.exists(a, {A}[a] == "z")',
    f'{A}.all(a, a != "z")',
    f"{A}.map(a, a).size() > 4",
    f"{A}.map(a, {A}.map(b, a + b)).size() > 4",
    f"{A}.all(a, {A}.all(b, a == b || a != b))",
    f'{A}.model.lowerAscii().contains("a100")',
    f'{A}.model.matches("^NVIDIA-A100")',
    f'{A}.model.matches("(?i)nvidia.*80gb")',
    f'{A}.model.split("-").join("").size() > 3',
    f'{A}.model.replace("A", "BB").size() > 3',
    '"%s-%d".format([device.driver, 3]) != ""',
    f'cel.bind(m, {A}, m.n == 3 && m.model != "x")',
    f'{A}.filter(a, a.startsWith("m")).size() > 0',
    'quantity("1Gi").add(quantity("2Gi")).isGreaterThan(quantity("1"))',
    f'{A}.?model.orValue("").size() > 1',
    f'{A}.model in ["a","b","NVIDIA-A100-80GB"]',
    f"{A}.n + 2 * 7 - 1 > 3",
    f"'hello world'.matches('{'a' * 400}') || true",
    r"'a'.matches('\\pL')",
    f"{[1, 2, 3]}.all(x, {[1, 2, 3]}.all(y, x + y > 0))",
    "'aaaaaaaaaa'.replace('a','aaaaaaaaaa').replace('a','aaaaaaaaaa') != ''",
    r"'hello world hello'.matches('(x|y)*(\\pL|x)*')",
]


@pytest.mark.at_length
@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_estimates_are_about_what_is_measured(expression: str) -> None:
    """Neither a quarter of it or less, nor five times as much; of a device with as many attributes
    as there can be.
    """
    attributes: dict[str, AttributeValue] = {f"{GPU}/a{at}": "x" * 40 for at in range(29)}
    attributes |= {f"{GPU}/n": 3, f"{GPU}/model": "NVIDIA-A100-80GB"}
    attributes |= {f"{GPU}/v": Version("1.2.3")}
    device = Device(name="d", attributes=attributes, capacity={f"{GPU}/memory": "80Gi"})
    tree = selector_cost.tree_of(compiled(expression))
    reads = selector_cost.reads(tree)
    program = selectors._environment().compile(selectors.read_text(expression).text)
    one = selectors._Compiled(program, tree, reads, {})
    took = []
    for _ in range(20):
        began = time.perf_counter()
        selectors._seen(device, reads)
        selectors._evaluated(one, GPU, device)
        took.append((time.perf_counter() - began) * 1e6)
    assert min(took) / 4 < estimate(expression) < 5 * min(took)
