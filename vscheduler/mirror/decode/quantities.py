"""Kubernetes quantities as exact integers, and back.

Kubernetes: apimachinery resource.Quantity (ParseQuantity, Value, MilliValue, String).
"""

import math
import re
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import TypeAlias

from vscheduler.model import resources

Quantity: TypeAlias = str | int | float
"""A quantity as found in an object: text from an API server, a plain number in handwritten YAML."""

AMOUNT_MAX = 2**63 - 1
"""Larger amounts are capped at AMOUNT_MAX, as in Kubernetes."""

LENGTH_MAX = 1000
EXPONENT_MAX = 2000
"""With at most LENGTH_MAX digits, a larger exponent can't change the amount: AMOUNT_MAX, 0 or 1."""

READABLE_MAX = 8
"""Exact quantities of bytes with more characters are rounded for people."""

_GRAMMAR = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.(?P<part>[0-9]*))?"
    r"(?P<suffix>[KMGTPE]i|[numkMGTPE]?|[eE](?P<exponent>[+-]?[0-9]+))",
    re.ASCII,
)
_DECIMAL = {
    "n": -9,
    "u": -6,
    "m": -3,
    "": 0,
    **{suffix: 3 * power for power, suffix in enumerate("kMGTPE", start=1)},
}
_BINARY = {f"{suffix}i": 10 * power for power, suffix in enumerate("KMGTPE", start=1)}
_BINARY_NAMES = ("memory", "ephemeral-storage", "storage", "requests.storage")
"""Resources written with Ki, Mi, Gi, in addition to names that start with `hugepages-`."""


class QuantityError(ValueError):
    """The text isn't a quantity. The message names the defect."""


def parse_milli(quantity: Quantity) -> int:
    """Return the amount in thousandths, for cpu, rounded away from zero."""
    return _parse(_text(quantity), 3)


def parse_whole(quantity: Quantity) -> int:
    """Return the amount in whole units, for all resources except cpu, rounded away from zero."""
    return _parse(_text(quantity), 0)


def parse(name: str, quantity: Quantity) -> int:
    """Return the amount of the named resource in the unit of resources.ResourceMap."""
    return parse_milli(quantity) if name == resources.CPU else parse_whole(quantity)


def format_quantity(name: str, amount: float) -> str:
    """Return an amount in the unit of resources.ResourceMap as Kubernetes writes quantities: 1500m,
    2, 1536Mi.

    Fractions, as in fair shares, are rounded to millionths of Kubernetes' unit (33333333u is a
    thirtieth of a thousand cores). Bytes are rounded to whole bytes.
    """
    if name in _BINARY_NAMES or name.startswith("hugepages-"):
        return _scaled(round(amount), 1024, ("", *_BINARY))
    exact = Decimal(amount) * 1000 if name == resources.CPU else Decimal(amount) * 1000_000
    return _scaled(round(exact), 1000, ("u", "m", "", "k", "M", "G", "T", "P", "E"))


def format_amounts(amounts: Mapping[str, float]) -> dict[str, str]:
    """Return amounts by resource as Kubernetes writes quantities; infinite amounts are left out."""
    return {
        name: format_quantity(name, amount)
        for name, amount in sorted(amounts.items())
        if math.isfinite(amount)
    }


def readable(name: str, amount: float, *, whole_bytes: bool = False) -> str:
    """Return an amount as a Kubernetes quantity that people can read: 1.5, 19.667, 1536Mi.

    Amounts are rounded to thousandths of Kubernetes' unit, bytes of fair shares to five digits.
    With `whole_bytes`, bytes are what they are: sums of what pods ask for.
    """
    if name in _BINARY_NAMES or name.startswith("hugepages-"):
        exact = format_quantity(name, amount)
        if whole_bytes or len(exact) <= READABLE_MAX:
            return exact
        power = min(int(math.log(amount, 1024)), len(_BINARY))
        return f"{amount / 1024**power:.2f}".rstrip("0").rstrip(".") + ("", *_BINARY)[power]
    whole, thousandths = divmod(round(amount if name == resources.CPU else amount * 1000), 1000)
    return f"{whole}.{thousandths:03}".rstrip("0").rstrip(".")


def format_readable(amounts: Mapping[str, float], *, whole_bytes: bool = False) -> dict[str, str]:
    """Return readable amounts by resource; infinite amounts are left out."""
    return {
        name: readable(name, amount, whole_bytes=whole_bytes)
        for name, amount in sorted(amounts.items())
        if math.isfinite(amount)
    }


def _text(quantity: Quantity) -> str:
    if isinstance(quantity, str):
        return quantity
    if isinstance(quantity, bool):
        raise QuantityError(f"{str(quantity).lower()} is not a quantity")
    return repr(quantity)


def _scaled(amount: int, base: int, suffixes: tuple[str, ...]) -> str:
    """Return the amount with the largest suffix that leaves no fraction."""
    if not amount:
        return "0"
    power = 0
    while power + 1 < len(suffixes) and amount % base == 0:
        amount //= base
        power += 1
    return f"{amount}{suffixes[power]}"


@lru_cache(maxsize=4096)
def exact(quantity: Quantity) -> Fraction:
    """Return the amount without rounding or limit."""
    sign, digits, exponent = _parts(_text(quantity))
    return sign * digits * Fraction(_ten_to(exponent), _ten_to(-exponent))


def _parse(text: str, scale: int) -> int:
    """Return the amount times 10**scale, rounded away from zero."""
    if text.isascii() and text.isdigit() and len(text) <= 15:
        return int(text) * _ten_to(scale)
    sign, digits, exponent = _parts(text)
    exponent += scale
    return sign * min(AMOUNT_MAX, -(-digits * _ten_to(exponent) // _ten_to(-exponent)))


def _parts(text: str) -> tuple[int, int, int]:
    """Return sign, digits and power of ten of an amount."""
    if len(text) > LENGTH_MAX:
        raise QuantityError(f"{text[:20]!r}… is not a quantity: it has {len(text)} characters")
    match = _GRAMMAR.fullmatch(text)
    if match is None or not (match["whole"] or match["part"]):
        raise QuantityError(f"{text!r} is not a quantity{_advice(text)}")
    part = match["part"] or ""
    digits = int(match["whole"] + part)
    exponent = -len(part)
    shift = _BINARY.get(match["suffix"], 0)
    if match["exponent"] is not None:
        exponent += max(-EXPONENT_MAX, min(EXPONENT_MAX, int(match["exponent"])))
    elif not shift:
        exponent += _DECIMAL[match["suffix"]]
    return -1 if match["sign"] == "-" else 1, digits << shift, exponent


def _ten_to(exponent: int) -> int:
    """Return the power of ten; 1 for a negative exponent."""
    return int("1" + "0" * exponent)


def _advice(text: str) -> str:
    """Return a hint at the intended quantity."""
    if not text.strip():
        return ": it is empty"
    if text != text.strip() or " " in text:
        return ": it must not contain spaces"
    number = text.rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
    suffix = text[len(number) :]
    if suffix and _GRAMMAR.fullmatch(number) and number.strip("+-."):
        return f": there is no suffix {suffix!r}, only n u m k M G T P E and Ki Mi Gi Ti Pi Ei"
    return "; write 500m, 4 or 16Gi"
