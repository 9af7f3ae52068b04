"""Lines of what comes in pieces, and what that costs."""

import random
from typing import Any

import pytest

from vscheduler.cluster.http import watch_lines

TEXT = b"one\ntwo\n\nthree\nand what isn't whole"


@pytest.mark.parametrize("seed", range(20))
def test_lines_are_the_same_whatever_the_pieces(seed: int) -> None:
    """Empty pieces and single bytes, too."""
    chance = random.Random(seed)
    cuts = sorted(chance.randint(0, len(TEXT)) for _ in range(chance.randint(0, 40)))
    text = watch_lines.Lines()
    whole = []
    for begin, end in zip([0, *cuts], [*cuts, len(TEXT)], strict=True):
        whole += text.take(TEXT[begin:end])
    *expected, rest = TEXT.split(b"\n")
    assert whole == expected
    assert text.waiting_bytes == len(rest)
    assert text.take(b"\n") == [rest]
    assert text.waiting_bytes == 0


class Counted(bytes):
    """Notes how many bytes are copied or looked through."""

    seen = 0

    def __radd__(self, before: bytes) -> bytes:
        """A copy of both."""
        type(self).seen += len(before) + len(self)
        return bytes(before) + bytes(self)

    def split(self, *arguments: Any) -> list[bytes]:
        """A look at all of it."""
        type(self).seen += len(self)
        return bytes(self).split(*arguments)


def test_a_long_line_costs_no_more_a_byte_than_a_short_one() -> None:
    """What has come of it isn't copied again with each piece: for 32 MiB, that's gigabytes."""
    Counted.seen = 0
    pieces, size = 1000, 100
    text = watch_lines.Lines()
    for _ in range(pieces):
        assert text.take(Counted(b"x" * size)) == []
        assert text.waiting_bytes <= pieces * size
    assert text.take(Counted(b"\n")) == [b"x" * pieces * size]
    assert Counted.seen <= 2 * pieces * size
