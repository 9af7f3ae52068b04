"""PodGroups of Kubernetes' own API are treated as Volcano's that say the same."""

import dataclasses
from collections.abc import Iterable
from typing import TypeAlias

import pytest

from tests.properties.worlds import configurations, histories
from tests.properties.worlds.histories import Plan
from tests.properties.worlds.moments import Eviction, Moment, Placement

SEEDS = 2
"""Of each configuration in every run: 10 s."""

WORLDS = 800
CYCLES = 8

Decided: TypeAlias = tuple[
    tuple[Placement, ...],
    set[Placement],
    tuple[Eviction, ...],
    dict[str, tuple[str, str]],
]
"""Binds, promised places, evictions, and the phase and reason of each group."""


def decisions(plan: Plan) -> list[Decided]:
    """Those of every cycle until the world rests."""
    found: list[Decided] = []

    def listen(moment: Moment) -> Iterable[str]:
        told = {
            group: (written[-1]["phase"], written[-1].get("reason", ""))
            for group, written in moment.statuses.items()
        }
        found.append((moment.binds, set(moment.pipelined), moment.evicts, told))
        return ()

    histories.live(plan, [listen], resting=())
    return found


def decides_alike(plan: Plan) -> None:
    """Cycle by cycle."""
    known = decisions(plan)
    assert any(binds for binds, *_ in known)
    assert decisions(dataclasses.replace(plan, of_kubernetes=True)) == known, plan.replay


@pytest.mark.parametrize("configuration", configurations.NAMES)
def test_both_kinds_of_pod_groups_are_treated_alike(configuration: str) -> None:
    """One world of each kind."""
    first = SEEDS * configurations.NAMES.index(configuration)
    for seed in range(first, first + SEEDS):
        plan = Plan(seed=seed, configuration=configuration, cycles=CYCLES, meeting=seed % 2 == 0)
        decides_alike(plan)


@pytest.mark.at_length
@pytest.mark.parametrize("configuration", configurations.NAMES)
def test_both_kinds_are_treated_alike_in_many_worlds(configuration: str) -> None:
    """Also where features meet, and with claims."""
    step = len(configurations.NAMES)
    for seed in range(configurations.NAMES.index(configuration), WORLDS, step):
        plan = Plan(seed=seed, configuration=configuration, cycles=CYCLES)
        decides_alike(
            dataclasses.replace(plan, meeting=seed // step % 3 == 1, claiming=seed // step % 3 == 2)
        )
