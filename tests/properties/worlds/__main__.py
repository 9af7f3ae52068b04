"""`python -m tests.properties.worlds`: live random worlds, tell which break a rule.

    python -m tests.properties.worlds 17 --configuration drf   one world again
    python -m tests.properties.worlds --worlds 2000 --part 1/2   the first half of seeds 0 to 1999
    python -m tests.properties.worlds --worlds 100 --large --cycles 60
    python -m tests.properties.worlds --worlds 3000 --meeting --cycles 10
    python -m tests.properties.worlds --first 3000 --worlds 500   seeds 3000 to 3499
    python -m tests.properties.worlds --worlds 1000 --claims   volumes, devices, pods that vanish
    python -m tests.properties.worlds --worlds 100 --times 3   what cycles take, without judges
    python -m tests.properties.worlds --worlds 100 --calls   the same in calls of functions
    python -m tests.properties.worlds --worlds 1000 --native   Kubernetes' own PodGroups

Without --configuration each seed has one of them, in turn.
"""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import yaml

from tests.properties.worlds import configurations, generator, histories, statements
from tests.properties.worlds.histories import Plan
from tests.properties.worlds.timing import Stopwatch


def plans(arguments: argparse.Namespace) -> Iterator[Plan]:
    """One per seed."""
    part, _, parts = arguments.part.partition("/")
    first = arguments.first
    seeds = range(first, first + arguments.worlds) if arguments.seed is None else [arguments.seed]
    for seed in seeds:
        if arguments.seed is None and seed % int(parts) != int(part) - 1:
            continue
        names = configurations.NAMES
        yield Plan(
            seed=seed,
            configuration=arguments.configuration or names[seed // 2 % len(names)],
            size=generator.LARGE if arguments.large else generator.SMALL,
            cycles=arguments.cycles,
            meeting=arguments.meeting,
            claiming=arguments.claims,
            of_kubernetes=arguments.native,
        )


def main(words: Sequence[str]) -> int:
    """1 where a rule is broken."""
    arguments = _read(words)
    if arguments.times or arguments.calls:
        watch = Stopwatch(1 if arguments.calls else arguments.times, calls=arguments.calls)
        for plan in plans(arguments):
            histories.live(plan, judges=(), run=watch.run)
        sys.stdout.write(f"{watch}\n")
        return 0
    count: Counter[str] = Counter()
    started, longest = time.process_time(), 0
    for plan in plans(arguments):
        history = histories.live(plan)
        longest = max(longest, history.count.pop("cycles to rest"))
        count.update(history.count, worlds=1, broken=bool(history.problems))
        count.update({histories.rule(problem) for problem in history.problems})
        if history.problems:
            sys.stdout.write(f"{history}\n")
            if arguments.write:
                path = Path(arguments.write) / f"{plan.configuration}-{plan.seed}.yaml"
                path.write_text(yaml.safe_dump_all(history.scene))
    seconds = time.process_time() - started
    sys.stdout.write(
        f"{dict(sorted(count.items()))}, {longest} cycles to rest at most, {seconds:.1f} CPU s\n"
    )
    if arguments.kinds:
        sys.stdout.write(f"statements: {dict(statements.seen.most_common())}\n")
    return bool(count["broken"])


def _read(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.properties.worlds")
    parser.add_argument("seed", type=int, nargs="?", help="one world")
    parser.add_argument("--worlds", type=int, default=100, help="how many seeds")
    parser.add_argument("--first", type=int, default=0, metavar="SEED", help="begin with this one")
    parser.add_argument("--part", default="1/1", metavar="I/N", help="every N-th seed")
    parser.add_argument("--configuration", choices=configurations.NAMES)
    parser.add_argument("--large", action="store_true", help="50 nodes, 10 queues, 80 jobs")
    parser.add_argument("--meeting", action="store_true", help="features meet on purpose")
    parser.add_argument("--claims", action="store_true", help="of volumes and devices")
    parser.add_argument("--native", action="store_true", help="with Kubernetes' own PodGroups")
    parser.add_argument("--cycles", type=int, default=20, help="of change, before rest")
    parser.add_argument("--times", type=int, metavar="ROUNDS", help="measure, the least of so many")
    parser.add_argument("--calls", action="store_true", help="count calls instead")
    parser.add_argument("--kinds", action="store_true", help="count statements of sentences")
    parser.add_argument("--write", metavar="FOLDER", help="for the objects before a broken rule")
    return parser.parse_args(words)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
