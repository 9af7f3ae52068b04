from collections import Counter

from tests import running
from tests.properties import network_lives, network_worlds

CLUSTERS = range(120)
LIVES = range(12)


def test_gangs_start_in_the_domains_that_trying_everything_finds() -> None:
    """The lowest tier, the least left over, now rather than later, or true numbers."""
    seen: Counter[str] = Counter()
    for number in CLUSTERS:
        network = network_worlds.drawn(str(number))
        result = running.decide(network.snapshot(), network.tree())
        assert network_worlds.judge(network, result) == [], number
        seen["binds"] += len(result.binds)
        seen["waits"] += bool(result.pipelined)
        known = network_worlds.expected(network)
        seen["in some domains only"] += 0 < len(known.domains) < len(network.domains) - 1
    assert min(seen["binds"] // 10, seen["waits"], seen["in some domains only"] // 4) > 2, seen


def test_no_action_spreads_a_hard_gang() -> None:
    """Whatever the others do; and what could start at rest has started."""
    seen: Counter[str] = Counter()
    for seed in LIVES:
        assert network_lives.live(seed, seen) == [], seed
    assert seen["binds"] > 5 * (seen["preempt"] + seen["reclaim"]) > 5, seen
