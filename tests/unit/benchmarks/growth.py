"""How the work of a call grows with the size of its input: generous limits on exponents."""

import gc
import math
import sys
from collections.abc import Callable

FLAT = 0.25
"""The highest exponent of work that others cause: eight times as many, 1.7 times the work."""
LINEAR = 1.25
"""The highest exponent of work for each of something: eight times as many, 13 times the work."""


def work_of(function: Callable[[], object]) -> int:
    """Return how many functions a call enters, in Python or C: work, whatever the machine.

    The collector's callbacks aren't counted, such as Hypothesis's, which come when they like.
    """
    count = 0

    def note(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    before = sys.getprofile()
    gc.disable()
    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(before)
        gc.enable()
    return count


def exponent(work: Callable[[int], int], small: int, large: int) -> float:
    """Return p, if the work grows from the small size to the large one as size to the power of p.

    Raises:
        AssertionError: There is no work to measure.
    """
    few, many = work(small), work(large)
    assert few > 0
    return math.log(many / few) / math.log(large / small)
