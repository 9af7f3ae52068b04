"""A world from its first cycle to its rest, every cycle judged: `live(Plan(...))`."""

import copy
import math
import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.properties.worlds import changes, configurations, generator, judging, rest_rules
from tests.properties.worlds import world as worlds
from tests.properties.worlds.generator import Blueprint, Size
from tests.properties.worlds.manifests import Document
from tests.properties.worlds.moments import Judge, Moment
from tests.properties.worlds.rest_rules import Promised
from tests.properties.worlds.world import Run, World
from vscheduler.core import cycle

ALONE = 3
"""Cycles in which the first jobs come and nothing else happens."""

QUIET_CYCLES = 4
"""So many cycles that decide nothing, each at the instant at which something could change with no
event, are rest."""

VOLCANO_CYCLES = 60
"""So long Volcano's way is followed that evicts and evicts."""

PAUSES = 120
"""So many seconds after the last decision no node is left alone any more for what happened before;
until then something may change whenever a cycle says so."""

TURN_CYCLES = worlds.GOING_MAX + 2
"""One claim: victims take so long to go, the preemptor binds, and the pods that come back bind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a world is, and how long it is shaken."""

    seed: int
    configuration: str
    size: Size = generator.SMALL
    cycles: int = 20
    meeting: bool = False
    """Whether features meet on purpose, in crowded clusters with limits."""
    claiming: bool = False
    """Whether pods have claims of volumes and devices, and vanish once they have ended."""
    of_kubernetes: bool = False
    """Whether groups are Kubernetes' own PodGroups where these can say the same."""

    @property
    def replay(self) -> str:
        """The command that lives it again."""
        size = " --large" if self.size is generator.LARGE else ""
        cycles = f" --cycles {self.cycles}{' --meeting' * self.meeting}"
        cycles += " --claims" * self.claiming + " --native" * self.of_kubernetes
        return (
            f"python -m tests.properties.worlds {self.seed}"
            f" --configuration {self.configuration}{size}{cycles}"
        )


@dataclass(slots=True, kw_only=True)
class History:
    """What came of it; as text, the first problem of each kind and how to see them again."""

    plan: Plan
    problems: list[str] = field(default_factory=list)
    count: Counter[str] = field(default_factory=Counter)
    scene: list[Document] = field(default_factory=list)
    """The objects before the first cycle that breaks a rule."""

    def __str__(self) -> str:
        first: dict[str, str] = {}
        for problem in self.problems:
            first.setdefault(rule(problem), problem)
        return "\n".join(
            (f"{len(self.problems)} problems; again: {self.plan.replay}", *first.values())
        )


def rule(problem: str) -> str:
    """The word that names the rule which is broken."""
    return next(word for word in problem.split() if word.isupper())


def live(
    plan: Plan,
    judges: Iterable[Judge] = judging.JUDGES,
    run: Run = cycle.run_cycle,
    *,
    resting: Iterable[Judge] = rest_rules.RULES,
) -> History:
    """The change of so many cycles, then rest. resting: judges of the last cycle."""
    blueprint = generator.blueprint(
        plan.seed,
        plan.size,
        tree=configurations.has_tree(plan.configuration),
        meeting=plan.meeting,
        claiming=plan.claiming,
    )
    around = World(
        blueprint.documents,
        plan.configuration,
        plan.seed,
        run,
        of_kubernetes=plan.of_kubernetes,
    )
    chance = random.Random(f"changes {plan.seed}")
    history, judges = History(plan=plan), tuple(judges)
    coming = list(blueprint.workloads)
    for number in range(plan.cycles):
        for _ in range(_arrivals(plan, blueprint, number)):
            if coming:
                around.arrive(coming.pop(0))
        if number >= ALONE and not blueprint.in_waves:
            changes.happen(around, chance)
        _cycle(around, history, judges)
    changes.end(around)
    _come_to_rest(around, history, judges, resting)
    return history


def _arrivals(plan: Plan, blueprint: Blueprint, number: int) -> int:
    """Two waves; or a third of the jobs at once, and the rest one after another in the first half
    of the time.
    """
    jobs = len(blueprint.workloads)
    if blueprint.in_waves:
        return jobs // 2 if number == 0 else jobs * (number == ALONE)
    return jobs // 3 if number == 0 else -(-jobs // max(1, plan.cycles // 2))


def _cycle(around: World, history: History, judges: Iterable[Judge]) -> Moment:
    around.turn()
    before = [] if history.problems else list(around.documents.values())
    moment = around.step()
    found = judging.judge(moment, judges)
    if found and not history.problems:
        history.scene = copy.deepcopy(before)
    history.problems += found
    history.count.update(cycles=1, binds=len(moment.binds))
    history.count.update(evict.action for evict in moment.evicts)
    return moment


def _come_to_rest(
    around: World,
    history: History,
    judges: Iterable[Judge],
    resting: Iterable[Judge],
) -> None:
    """Without change from outside, decisions end although evicted pods come back.

    A job claims room at most once: what it gets stays its own, as nobody who lost by it may take
    it back. A claim with all that follows takes TURN_CYCLES, so that there are no more cycles with
    decisions than that times jobs; one turn more is for what is on its way.

    Volcano's way doesn't come to rest: it evicts for a job of which not all is proved to fit, and
    keeps no room for it, so that the pod that comes back takes its place again.
    """
    most = TURN_CYCLES * (len(around.owners) + 1)
    busy = quiet = gone = 0
    promised, since = Promised(), around.now
    while quiet < QUIET_CYCLES or around.is_moving or (around.wake_at or math.inf) < since + PAUSES:
        moment = _cycle(around, history, judges)
        gone += len(moment.evicts)
        promised.note(moment)
        if moment.binds or moment.evicts:
            busy, quiet, since = busy + 1, 0, around.now
        elif not around.is_moving:
            quiet += 1
            around.now = max(around.now, around.wake_at or 0)
        if busy > min(most, VOLCANO_CYCLES) and gone and moment.setting.volcano:
            break
        if busy > most:
            evicted = sorted(moment.lost)
            history.problems.append(
                f"cycle {around.cycles}: RESTLESS in {busy} cycles after the last change;"
                f" last {len(moment.binds)} binds, evictions of {', '.join(evicted) or 'nobody'}"
            )
            break
    else:
        found = judging.judge(moment, (*resting, promised.unserved))
        if found and not history.problems:
            history.scene = copy.deepcopy(list(around.documents.values()))
        history.problems += found
    history.count["cycles to rest"] = busy
