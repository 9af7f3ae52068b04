"""Quantities such as `500m`, `4` or `16Gi`."""

import re
from fractions import Fraction
from typing import Any

FORM = re.compile(
    r"([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))(?:([KMGTPE]i)|([numkMGTPE])|[eE]([+-]?[0-9]+))?"
)
BINARY = {f"{letter}i": 1024**power for power, letter in enumerate("KMGTPE", 1)}
DECIMAL = {
    letter: Fraction(10) ** power
    for letter, power in zip("numkMGTPE", (-9, -6, -3, 3, 6, 9, 12, 15, 18), strict=True)
}


def is_quantity(value: Any) -> bool:
    """Whether this is a quantity, as text or as a number."""
    if isinstance(value, bool):
        return False
    return isinstance(value, int | float) or (
        isinstance(value, str) and FORM.fullmatch(value) is not None
    )


def amount(value: Any) -> Fraction:
    """The number that a quantity stands for."""
    found = FORM.fullmatch(str(value))
    assert found is not None, value
    number, binary, decimal, exponent = found.groups()
    scale = Fraction(BINARY.get(binary, 1)) * DECIMAL.get(decimal, 1)
    return Fraction(number) * scale * Fraction(10) ** int(exponent or 0)
