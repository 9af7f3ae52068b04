"""`python -m tests.benchmarks.gangs.completeness`: random gangs that fit, and that don't.

Of gangs around a hidden solution: how many the search places within the steps of one cycle, of
several, and without a limit, and how many `vscheduler simulate` binds. Of gangs that don't fit, by
an exact search or a solver: how many it proves impossible, and whether the exact search or the
solver agrees with each set of pods that it names.
"""

import argparse
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from tests.benchmarks.gangs import problems
from tests.properties import gang_columns, gang_problems, gang_solver
from tests.properties.gang_problems import World
from vscheduler.core.actions import allocate
from vscheduler.core.actions.allocate import Allocate
from vscheduler.core.gangs import attempt
from vscheduler.core.gangs.solver import strategy
from vscheduler.core.gangs.solver.problem import Answer, CutShort, Found, Impossible
from vscheduler.core.gangs.solver.strategy import Proof

GANGS = 10_000
STEPS = int(str(Allocate.arguments[allocate.SEARCH_STEPS].default))

Fits = Callable[[World], bool]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a line for each kind of gangs; 1 if any answer is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.gangs.completeness")
    add = parser.add_argument
    add("--gangs", type=int, default=GANGS, help=f"of each row; default {GANGS}")
    add("--first", type=int, default=0, help="the number of the first gang drawn; default 0")
    add("rows", nargs="*", metavar="ROW", help=f"default all: {', '.join(ROWS)}")
    given = parser.parse_args(arguments)
    wrong = 0
    for name in given.rows or ROWS:
        counts = ROWS[name](given.first, given.gangs)
        wrong += counts["wrong"]
        figures = ", ".join(f"{count} {what}" for what, count in sorted(counts.items()))
        sys.stdout.write(f"{name}: {figures}\n")
        sys.stdout.flush()
    return int(wrong > 0)


def hidden(number: int) -> World:
    """Draw a gang that fits: 2 to 12 pods, 2 to 8 nodes, 70 to 100 % full, with all rules."""
    chance = random.Random(f"hidden/{number}")
    return gang_problems.draw_that_fits(
        chance, pods=chance.randint(2, 12), nodes=chance.randint(2, 8)
    )


def search_those_that_fit(first: int, gangs: int) -> Counter[str]:
    """Search as often as the daemon would, and without a limit if one cycle isn't enough."""
    counts = Counter[str]()
    for world in map(hidden, range(first, first + gangs)):
        given, cycles = gang_columns.given(world), 1
        outcome = strategy.solve(given, STEPS)
        while isinstance(outcome.answer, CutShort) and cycles < attempt.CYCLES_MAX:
            outcome = strategy.solve(given, STEPS, outcome.failed)
            cycles += 1
        counts[f"in {cycles} cycles"] += 1
        answers = [outcome.answer]
        if cycles > 1:
            answers.append(strategy.solve(given, None).answer)
        counts["wrong"] += not all(_is_placed(world, answer) for answer in answers)
    return counts


def _is_placed(world: World, answer: Answer) -> bool:
    return isinstance(answer, Found) and gang_problems.is_valid(world, answer.places)


def simulate_those_that_fit(first: int, gangs: int) -> Counter[str]:
    """Run the same gangs through one cycle of `vscheduler simulate`."""
    started = Counter(
        problems.starts_in_simulate(hidden(number)) for number in range(first, first + gangs)
    )
    return Counter({"bound": started[True], "not bound": started[False]})


def search_small_ones(first: int, gangs: int) -> Counter[str]:
    """Search for gangs that don't fit, by trying everything: 2 to 6 pods on 2 to 4 nodes."""

    def drawn(number: int) -> World:
        chance = random.Random(f"small/{number}")
        return gang_problems.draw(
            chance, pods=chance.randint(2, 6), nodes=chance.randint(2, 4), rich=number % 2 > 0
        )

    return _refused(first, gangs, drawn, gang_problems.fits)


def search_larger_ones(first: int, gangs: int) -> Counter[str]:
    """Search for gangs that don't fit, by the solver: 7 to 12 pods on 4 to 8 nodes."""

    def drawn(number: int) -> World:
        chance = random.Random(f"larger/{number}")
        size = {"pods": chance.randint(7, 12), "nodes": chance.randint(4, 8)}
        world = gang_problems.draw(chance, **size, rich=number % 2 > 0)
        world.pods = [replace(pod, near_by="", spread_by="") for pod in world.pods]
        return world

    return _refused(first, gangs, drawn, gang_solver.fits)


def _refused(first: int, gangs: int, drawn: Callable[[int], World], fits: Fits) -> Counter[str]:
    """Search for so many gangs that don't fit, and check what the answers say."""
    counts, number = Counter[str](), first
    while counts["gangs"] < gangs:
        world = drawn(number)
        number += 1
        if fits(world):
            continue
        counts["gangs"] += 1
        given = gang_columns.given(world)
        outcome = strategy.solve(given, STEPS)
        counts["wrong"] += isinstance(outcome.answer, Found)
        if not isinstance(outcome.answer, Impossible):
            continue
        counts["proved in the first cycle"] += 1
        found = Proof(given, strategy.steps_for_proof(STEPS, outcome.steps)).find()
        if found.counts:
            counts["certificates"] += 1
            counts["irreducible certificates"] += found.irreducible
            counts["wrong"] += not _is_accepted(world, found, fits)
    return counts


def _is_accepted(world: World, found: Impossible, fits: Fits) -> bool:
    """Whether these pods don't fit, and do without any one of them if that is said."""
    fewer = _with_one_fewer(found.counts) if found.irreducible else ()
    return not fits(_needing(world, found.counts)) and all(
        fits(_needing(world, counts)) for counts in fewer
    )


def _with_one_fewer(counts: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    for kind, count in enumerate(counts):
        if count:
            yield (*counts[:kind], count - 1, *counts[kind + 1 :])


def _needing(world: World, counts: tuple[int, ...]) -> World:
    """Return the world with so many pods of each kind, all of which are needed."""
    pods = [replace(each, count=count) for each, count in zip(world.pods, counts, strict=True)]
    return replace(world, pods=pods, least=sum(counts), roles={}, queue=None)


ROWS = {
    "fitting": search_those_that_fit,
    "simulated": simulate_those_that_fit,
    "small": search_small_ones,
    "larger": search_larger_ones,
}

if __name__ == "__main__":
    sys.exit(main())
