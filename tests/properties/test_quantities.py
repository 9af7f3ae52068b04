import re
from contextlib import suppress
from fractions import Fraction

from hypothesis import given, strategies

from vscheduler.mirror.decode import quantities
from vscheduler.mirror.decode.quantities import QuantityError

SUFFIXES = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    **{suffix: Fraction(1000**power) for power, suffix in enumerate("kMGTPE", start=1)},
    **{f"{suffix}i": Fraction(1024**power) for power, suffix in enumerate("KMGTPE", start=1)},
    **{f"e{power}": Fraction(10) ** power for power in (-12, -1, 0, 3, 12)},
    **{f"E{power:+}": Fraction(10) ** power for power in (-12, -1, 0, 3, 12)},
}
NUMBERS = strategies.from_regex(r"[0-9]{1,12}(\.[0-9]{0,8})?|\.[0-9]{1,8}", fullmatch=True)


@given(strategies.sampled_from(("", "+", "-")), NUMBERS, strategies.sampled_from(sorted(SUFFIXES)))
def test_parsing_agrees_with_fractions(sign: str, number: str, suffix: str) -> None:
    """The slow way, with exact fractions, gives the same amounts."""
    exact = Fraction(f"0{number}" if number.startswith(".") else number) * SUFFIXES[suffix]
    for parse, scale in ((quantities.parse_whole, 1), (quantities.parse_milli, 1000)):
        rounded = min(quantities.AMOUNT_MAX, -(-exact * scale // 1))
        assert parse(f"{sign}{number}{suffix}") == (-rounded if sign == "-" else rounded)


@given(
    strategies.sampled_from(("cpu", "memory", "pods", "nvidia.com/gpu", "hugepages-1Gi")),
    strategies.integers(-(2**53), 2**53),
)
def test_what_is_written_is_read_as_the_same(name: str, amount: int) -> None:
    """A whole amount survives the way to Kubernetes and back."""
    assert quantities.parse(name, quantities.format_quantity(name, amount)) == amount


@given(strategies.text(max_size=12))
def test_any_text_is_read_or_refused(text: str) -> None:
    """Nothing but a QuantityError comes of any text, and nothing illegal is read."""
    amount = None
    with suppress(QuantityError):
        amount = quantities.parse_milli(text)
    legal = re.fullmatch(r"[+-]?[0-9.]+([numkMGTPE]?|[KMGTPE]i|[eE][+-]?[0-9]+)", text, re.ASCII)
    assert amount is None or legal
