"""Quantities and what pods request, computed from the objects alone."""

import functools
import math
import re
from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, TypeAlias

from tests.simulation.judges.history import Object

Amounts: TypeAlias = Counter[str]
"""By resource: cpu in thousandths, everything else in whole units."""

QUANTITY = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))([eE][+-]?\d+|[a-zA-Z]*)")
SUFFIXES = {
    "": Fraction(1),
    **{name: Fraction(1, 1000**power) for power, name in enumerate("mun", start=1)},
    **{name: Fraction(1000**power) for power, name in enumerate("kMGTPE", start=1)},
    **{f"{name}i": Fraction(1024**power) for power, name in enumerate("KMGTPE", start=1)},
}

EXPONENT_MAX = 100
"""Larger exponents mean more than any node has, too."""


@functools.lru_cache(maxsize=10_000)
def quantity(resource: str, text: str, *, down: bool = False) -> int:
    """Round up, as Kubernetes does, or down; text that is no quantity counts as nothing."""
    found = QUANTITY.fullmatch(text.strip())
    if found is None:
        return 0
    number, suffix = found.groups()
    if suffix in SUFFIXES:
        factor = SUFFIXES[suffix]
    elif suffix[0] in "eE" and suffix[1:].lstrip("+-").isdigit():
        factor = Fraction(10) ** max(-EXPONENT_MAX, min(EXPONENT_MAX, int(suffix[1:])))
    else:
        return 0
    amount = Fraction(number) * factor * (1000 if resource == "cpu" else 1)
    return math.floor(amount) if down else math.ceil(amount)


def amounts(listed: Mapping[str, Any] | None, *, down: bool = False) -> Amounts:
    """Quantities as numbers."""
    found = {name: quantity(name, str(text), down=down) for name, text in (listed or {}).items()}
    return Counter(found)


def request(pod: Object) -> Amounts:
    """What a pod needs on its node, its slot included (Kubernetes: PodRequests)."""
    spec = pod["spec"]
    total: Amounts = Counter()
    for container in spec.get("containers", ()):
        total.update(_needs(container))
    peak: Amounts = Counter()
    sidecars: Amounts = Counter()
    for container in spec.get("initContainers") or ():
        if container.get("restartPolicy") == "Always":
            sidecars.update(_needs(container))
            peak |= sidecars
        else:
            peak |= sidecars + _needs(container)
    total.update(sidecars)
    total |= peak
    total.update(amounts(spec.get("overhead")))
    total["pods"] = 1
    return total


def _needs(container: Object) -> Amounts:
    """A limit counts as the request where there is no request."""
    resources = container.get("resources") or {}
    return amounts({**(resources.get("limits") or {}), **(resources.get("requests") or {})})


def shown(resource: str, amount: int) -> str:
    """An amount for people."""
    return f"{amount / 1000:g}" if resource == "cpu" else str(amount)
