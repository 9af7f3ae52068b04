"""Gangs that lose pods for good, in random worlds: with a recovery time-out and without one."""

import random
from collections.abc import Iterator

import pytest

from tests.properties.worlds import census as censuses
from tests.properties.worlds import changes, generator, judging
from tests.properties.worlds.census import Census
from tests.properties.worlds.moments import Moment
from tests.properties.worlds.world import World

SEEDS = range(12)
GROWING = 8
"""Cycles in which jobs come and start."""
LOSSES = 6
QUIET_CYCLES = 4
CYCLES_MAX = 200
RULE = "gang"
"""The action of evictions of incomplete gangs."""


def grown(seed: int, configuration: str) -> World:
    """A world in which all jobs have come."""
    blueprint = generator.blueprint(seed, generator.SMALL, tree=False)
    around = World(blueprint.documents, configuration, seed)
    for workload in blueprint.workloads:
        around.arrive(workload)
    for _ in range(GROWING):
        around.turn()
        around.step()
    return around


def lose(around: World, chance: random.Random) -> None:
    """Most owners make no pods any more; some of their pods end."""
    for name in sorted(around.owners):
        if chance.random() < 0.7:
            del around.owners[name]
    ends = (changes.pod_fails, changes.pod_ends_well, changes.pod_is_deleted)
    for _ in range(LOSSES):
        chance.choice(ends)(around, chance)


def to_rest(around: World) -> Iterator[Moment]:
    """Every cycle until nothing is decided any more, each at the instant at which one is due."""
    quiet = 0
    for _ in range(CYCLES_MAX):
        around.turn()
        moment = around.step()
        yield moment
        decides = bool(moment.binds or moment.evicts)
        quiet = 0 if decides or around.is_moving else quiet + 1
        if quiet == QUIET_CYCLES:
            return
        if quiet:
            around.now = max(around.now, around.wake_at or 0)
    pytest.fail(f"no rest after {CYCLES_MAX} cycles")


def is_stale(census: Census, group: str) -> bool:
    """Whether pods of the group run, fewer than it needs, and none exists that may start."""
    members, document = census.members[group], census.groups[group]
    has = [pod for pod in members if censuses.counts(pod)]
    lost = document["spec"]["minMember"] - len(has)
    succeeded = sum(pod["status"]["phase"] == "Succeeded" for pod in members)
    lost -= max(0, document.get("status", {}).get("succeeded", 0) - succeeded)
    waits = any(
        not (censuses.has_node(pod) or censuses.leaving(pod) or censuses.finished(pod))
        for pod in members
    )
    runs = any(not censuses.finished(pod) for pod in has)
    started = document.get("status", {}).get("phase") in ("Running", "Unknown")
    return started and runs and lost > 0 and not waits


def is_free_to_go(census: Census, group: str) -> bool:
    """Whether nothing protects any pod of the group."""
    pods = [pod for pod in census.members[group] if censuses.has_node(pod)]
    texts = [census.groups[group]["metadata"], *(pod["metadata"] for pod in pods)]
    preemptable = (
        text.get(kind, {}).get("volcano.sh/preemptable", "true")
        for text in texts
        for kind in ("annotations", "labels")
    )
    critical = any(pod["spec"].get("priorityClassName", "").startswith("system-") for pod in pods)
    covered = any(censuses.covers(budget, pod) for budget in census.budgets for pod in pods)
    return "false" not in preemptable and not critical and not covered


def gone(seed: int) -> int:
    """How many pods go, of stale gangs only; none is left of those that may."""
    around = grown(seed, "recovery")
    lose(around, random.Random(f"losses {seed}"))
    moment, found = None, 0
    for moment in to_rest(around):
        problems = judging.judge(moment)
        assert not problems, (seed, problems)
        for evict in moment.evicts:
            if evict.action == RULE:
                group = censuses.group_of(moment.census.pods[evict.pod])
                assert is_stale(moment.census, group), f"{seed}: {group} goes at {moment.number}"
                found += 1
    assert moment is not None
    left = [
        group
        for group in moment.census.groups
        if is_stale(moment.census, group) and is_free_to_go(moment.census, group)
    ]
    assert left == [], seed
    return found


def test_stale_gangs_go_and_only_they() -> None:
    """Evictions come to rest, no rule is broken, and then no gang is left that nobody completes.

    In some worlds there are some: otherwise this would say nothing.
    """
    assert sum(gone(seed) for seed in SEEDS) > len(SEEDS) // 4


@pytest.mark.parametrize("seed", SEEDS)
def test_without_a_time_out_none_goes(seed: int) -> None:
    """Whatever they have lost."""
    around = grown(seed, "preempt")
    lose(around, random.Random(f"losses {seed}"))
    for moment in to_rest(around):
        assert [evict for evict in moment.evicts if evict.action == RULE] == []
