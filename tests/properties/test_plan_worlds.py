import pytest

from tests.properties import plan_worlds

SEEDS = 50
MANY_SEEDS = 1500

EVICTIONS = 2
"""So many for each world at least, on average: a judge with nothing to judge finds nothing."""


def judged(seeds: range, actions: str, *, restarts: bool = False) -> None:
    """Each job that pods are evicted for starts, and evictions come to rest."""
    evictions = 0
    for seed in seeds:
        history = plan_worlds.lived(seed, actions, restarts=restarts)
        assert history.rests, f"seed {seed}\n{history.picture}"
        assert history.in_vain() == [], f"seed {seed}\n{history.picture}"
        evictions += history.evictions
    assert evictions >= EVICTIONS * len(seeds)


@pytest.mark.parametrize("actions", plan_worlds.TREES)
def test_whoever_pods_are_evicted_for_starts(actions: str) -> None:
    """Whatever the pods ask of each other."""
    judged(range(SEEDS), actions)


@pytest.mark.parametrize(("first", "actions"), list(enumerate(plan_worlds.TREES)))
def test_a_new_process_goes_on_with_plans(first: int, actions: str) -> None:
    """Each fifth cycle knows of the ones before only what pods show."""
    judged(range(first, 60, len(plan_worlds.TREES)), actions, restarts=True)


@pytest.mark.at_length
@pytest.mark.parametrize("actions", plan_worlds.TREES)
def test_whoever_pods_are_evicted_for_starts_in_many_worlds(actions: str) -> None:
    """More of the same."""
    judged(range(SEEDS, MANY_SEEDS), actions)
