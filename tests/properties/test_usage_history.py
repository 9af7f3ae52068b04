"""Records of usage through random histories, held to an integral that remembers everything."""

import random

import pytest

from vscheduler.mirror.translate import usage_annotation as annotations
from vscheduler.model import queues
from vscheduler.model.queues import Account, Usage

HISTORIES = 30
STEPS = 40
MOMENTS = 400
"""Into which the oracle cuts each piece of a history."""

NAMESPACES = ("a", "b", "c", "d")

Piece = tuple[float, float, dict[str, float]]
"""From when to when which namespaces used how much."""


def remembered(pieces: list[Piece], name: str | None, now: float, half_life: float) -> float:
    """What a namespace, or the queue, has used: each moment by itself, middle by middle."""
    total = 0.0
    for start, end, rates in pieces:
        rate = sum(rates.values()) if name is None else rates.get(name, 0.0)
        width = (end - start) / MOMENTS
        for moment in range(MOMENTS if rate else 0):
            middle = start + (moment + 0.5) * width
            total += rate * width * 0.5 ** ((now - middle) / half_life)
    return total


def a_history(chance: random.Random, half_life: float) -> tuple[Usage, list[Piece], float]:
    """Cycles at random instants, pods that come and go, and now and then a restart."""
    now = 1e9
    pieces: list[Piece] = []
    rates = {"a": 1.0}
    start = Account(used=0.0, rate=1.0)
    record, known = Usage(time=now, queue=start, namespaces={"a": start}), rates
    for _ in range(STEPS):
        later = now + chance.choice((0.0, 0.25, 1.0, 60.0, 3600.0))
        pieces.append((now, later, rates))
        now = later
        if chance.random() < 0.5:
            count = chance.randrange(len(NAMESPACES) + 1)
            rates = {name: chance.randrange(1, 9) / 4 for name in NAMESPACES[:count]}
        after = queues.updated_usage(record, rates, sum(rates.values()), now, half_life)
        assert after is not None
        assert (after is record) == (rates == known)
        record, known = after, rates
        if chance.random() < 0.2:
            record = annotations.parse(annotations.text(record))
    return record, pieces, now


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_records_remember_what_happened(seed: int) -> None:
    """Whatever comes, goes and is read back: usage is the decayed integral of the rates."""
    chance = random.Random(seed)
    half_life = chance.choice((300.0, 7200.0, 604_800.0))
    record, pieces, now = a_history(chance, half_life)
    seconds = now - record.time
    most = remembered(pieces, None, now, half_life)
    found = queues.decayed(record.queue, seconds, half_life)
    assert found == pytest.approx(most, rel=1e-3)
    for name in NAMESPACES:
        account = record.namespaces.get(name, queues.NOTHING)
        expected = remembered(pieces, name, now, half_life)
        assert queues.decayed(account, seconds, half_life) == pytest.approx(
            expected, rel=1e-3, abs=2 * queues.NEGLIGIBLE * most + 1e-9
        )
