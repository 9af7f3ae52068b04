"""Water filling: what must hold for any queues, and Volcano's rounds as the slow oracle."""

from dataclasses import dataclass

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from vscheduler.core.shares import share_arithmetic
from vscheduler.core.shares.share_arithmetic import ResourceArray

EMPTY = 0.1
"""Less than this of every resource is nothing left (Volcano: minResource)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Some queues and what there is."""

    total: ResourceArray
    weights: ResourceArray
    request: ResourceArray
    capability: ResourceArray
    guarantee: ResourceArray

    def poured(self, order: list[int] | None = None) -> ResourceArray:
        """What the queues deserve, asked in this order and given in the first one."""
        rows = np.arange(len(self.weights)) if order is None else np.array(order)
        found = np.empty_like(self.request)
        found[rows] = share_arithmetic.water_fill(
            self.total,
            self.weights[rows],
            self.request[rows],
            self.capability[rows],
            self.guarantee[rows],
        )
        return found


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """One to six queues with one to three resources; guarantees are rare."""
    queues, kinds = draw(st.integers(1, 6)), draw(st.integers(1, 3))

    def table(cell: st.SearchStrategy[float]) -> ResourceArray:
        row = st.lists(cell, min_size=kinds, max_size=kinds)
        return np.array(draw(st.lists(row, min_size=queues, max_size=queues)), dtype=np.float64)

    total = np.array(
        draw(st.lists(st.integers(0, 10_000), min_size=kinds, max_size=kinds)), dtype=np.float64
    )
    weights = draw(st.lists(st.integers(1, 9), min_size=queues, max_size=queues))
    guarantee = table(st.sampled_from([0.0, 0.0, 0.0, 10.0, 500.0]))
    limits = table(st.one_of(st.just(np.inf), st.integers(1, 5000).map(float)))
    return Case(
        total=total,
        weights=np.array(weights, dtype=np.float64),
        request=table(st.integers(0, 9000).map(float)),
        capability=share_arithmetic.real_capability(
            total, guarantee.sum(axis=0), guarantee, limits
        ),
        guarantee=guarantee,
    )


def by_rounds(case: Case) -> list[list[float]]:
    """Volcano's text, queue by queue and resource by resource (reference: proportion, 6 and 7)."""
    queues, kinds = case.request.shape
    deserved = [[0.0] * kinds for _ in range(queues)]
    remaining = case.total.tolist()
    unmet = set(range(queues))
    while unmet and sum(case.weights[queue] for queue in unmet) > 0:
        weights = sum(case.weights[queue] for queue in sorted(unmet))
        before = list(remaining)
        change = [0.0] * kinds
        for queue in sorted(unmet):
            old = list(deserved[queue])
            for kind in range(kinds):
                value = old[kind] + before[kind] * case.weights[queue] / weights
                value = min(value, case.capability[queue, kind])
                value = min(value, case.request[queue, kind])
                deserved[queue][kind] = max(value, case.guarantee[queue, kind])
                change[kind] += deserved[queue][kind] - old[kind]
            met = all(case.request[queue, kind] <= deserved[queue][kind] for kind in range(kinds))
            if met or deserved[queue] == old:
                unmet.discard(queue)
        remaining = [max(0.0, left - taken) for left, taken in zip(before, change, strict=True)]
        if remaining == before or all(left < EMPTY for left in remaining):
            break
    return deserved


@given(cases())
def test_it_ends_where_volcanos_rounds_end(case: Case) -> None:
    """The rounds stop a tenth of a unit before the end."""
    assert np.allclose(case.poured(), by_rounds(case), rtol=1e-9, atol=2 * EMPTY)


@given(cases())
def test_limits_are_kept(case: Case) -> None:
    """Nobody has more than it asks for or can have, but for its guarantee, nor less than that."""
    poured = case.poured()
    assert (poured >= case.guarantee).all()
    assert (poured <= np.maximum(np.minimum(case.request, case.capability), case.guarantee)).all()


@given(cases())
def test_no_more_is_given_than_there_is(case: Case) -> None:
    """Where guarantees exceed the plain shares by weight, they come on top."""
    plain = case.total * (case.weights / case.weights.sum())[:, np.newaxis]
    excess = np.maximum(case.guarantee - plain, 0.0).sum(axis=0)
    assert (case.poured().sum(axis=0) <= case.total + excess + 1e-6).all()


@given(cases())
def test_nothing_is_left_while_someone_wants_more(case: Case) -> None:
    """Either all is given away, or everyone has all that it asks for and can have."""
    poured = case.poured()
    full = poured >= np.minimum(case.request, case.capability)
    given_away = poured.sum(axis=0) >= case.total - 1e-6
    assert (given_away | full.all(axis=0)).all()


@given(cases())
def test_the_unsatisfied_share_by_weight(case: Case) -> None:
    """Of two queues that want more, neither has less per weight, guarantees aside."""
    poured = case.poured()
    per_weight = poured / case.weights[:, np.newaxis]
    open_ended = (poured < np.minimum(case.request, case.capability) - 1e-6) & (
        case.guarantee == 0.0
    )
    for kind in range(case.total.size):
        levels = per_weight[open_ended[:, kind], kind]
        assert levels.size == 0 or np.ptp(levels) <= 1e-6 * max(1.0, float(levels.max()))


@given(cases(), st.randoms(use_true_random=False))
def test_the_order_of_queues_means_nothing(case: Case, chance: object) -> None:
    """The same queues in another order deserve the same."""
    order = list(range(len(case.weights)))
    chance.shuffle(order)  # type: ignore[attr-defined]  # a random.Random
    assert np.allclose(case.poured(), case.poured(order), rtol=1e-12, atol=1e-9)
