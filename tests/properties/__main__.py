"""`python -m tests.properties 0 1000`: the rules of evictions on large clusters of these seeds."""

import sys
from collections import Counter

from tests.properties import clusters, lives, test_evictions


def main(first: int, last: int) -> int:
    """Seed after seed; prints those that break a rule, and what was decided in all."""
    most = max(test_evictions.RULES.values())
    count: Counter[str] = Counter()
    for seed in range(first, last):
        picture = lives.from_seed(seed, (4, 2, 1)[seed % 3], clusters.LARGE)
        results = test_evictions.live(picture, most)
        for rule, cycles in test_evictions.RULES.items():
            try:
                rule(results[:cycles])
            except AssertionError as error:
                count["broken"] += 1
                sys.stdout.write(f"seed {seed}, {rule.__name__}: {str(error)[:200]}\n")
        count["clusters"] += 1
        for _, result in results:
            count["cycles"] += 1
            count["binds"] += len(result.binds)
            for evict in result.evicts:
                count[f"{evict.action}{', whole gang' if evict.whole else ''}"] += 1
    sys.stdout.write(f"{dict(sorted(count.items()))}\n")
    return bool(count["broken"])


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
