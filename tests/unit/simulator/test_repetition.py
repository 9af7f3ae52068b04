import pytest

from tests import pictures, running
from vscheduler.simulator import repetition, run

SEESAW = """
    node n1 cpu=2 memory=2Gi
    queue a deserved=cpu:4,memory:1Gi   job a/x cpu=2 memory=2Gi n1
    queue b deserved=cpu:1,memory:4Gi   job b/y cpu=2 memory=2Gi -
"""
"""Each queue is above its share of what the other one lacks. In Volcano's way a claim is good when
one of its resources is within the share, so that either may take from the other.
"""


def outcome(cycles: int, **settings: bool) -> run.Outcome:
    """So many cycles of the seesaw."""
    tree = {
        "actions": "allocate, reclaim",
        "tiers": running.tiers("gang | capacity predicates nodeorder"),
        **({"compatibility": "volcano"} if settings.get("volcano", True) else {}),
    }
    options = run.Options(cycles=cycles, evicted_return=settings.get("evicted_return", True))
    return run.simulate(pictures.documents(SEESAW), running.policy_of(tree), options)


def looks(text: str) -> list[repetition.Look]:
    """A letter is a state; `a<b` is one in which b's pod is evicted for a."""
    found = []
    for word in text.split():
        state, _, pairs = word.partition(":")
        evicted = frozenset(
            (loser, winner)
            for winner, _, loser in (each.partition("<") for each in pairs.split(",") if each)
        )
        found.append(repetition.Look(state=(state, evicted), pairs=evicted))
    return found


def sentence(text: str) -> str:
    """What is said of a run that looked so."""
    return str(repetition.find(looks(text)) or "")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "s s s s",
        "s1:a<b s2 s3 s3 s3",
        "s1 s2:a<b s1 s2:a<b s3",
        "s1:a<b s2 s1:b<a s2",
        "s0 s1:a<b",
        "s0 s2 s1:a<b s2 s1:a<b s3 s4",
    ],
)
def test_what_ends_is_no_repetition(text: str) -> None:
    """Two whole rounds, the same cycle by cycle, with evictions, at the very end."""
    assert sentence(text) == ""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("s0 1:a<b 2:b<a 1:a<b 2:b<a", "jobs a and b have evicted each other since cycle 2"),
        (
            "s0 t 1 2:a<b 3:b<a 1 2:a<b 3:b<a 1",
            "jobs a and b have evicted each other since cycle 4",
        ),
        ("1:c<b 1:c<b", "job b has been evicted for job c again and again since cycle 1"),
        ("1:<b 1:<b", "job b has been evicted again and again since cycle 1"),
        ("1:b<b 2 1:b<b 2", "job b has been evicted for job b again and again since cycle 1"),
        (
            "1:c<b,c<a 2 1:c<b,c<a 2",
            "jobs a and b have been evicted for job c again and again since cycle 1",
        ),
        (
            "1:a<b 2:b<c 3:c<a 1:a<b 2:b<c 3:c<a",
            "jobs a, b and c have evicted one another since cycle 1",
        ),
        (
            "1:a<b,b<c,c<d,d<e,e<f,f<g,g<a 1:a<b,b<c,c<d,d<e,e<f,f<g,g<a",
            "jobs a, b, c, d, e and 2 more have evicted one another since cycle 1",
        ),
    ],
)
def test_one_sentence_names_who_and_since_when(text: str, expected: str) -> None:
    """The first eviction of the rounds that are the same; five jobs at most."""
    assert sentence(text) == expected


def test_a_run_that_goes_round_says_so() -> None:
    """Names and ages differ from round to round, and don't matter; the shortest run that shows it
    has two rounds.
    """
    expected = "jobs default/x and default/y have evicted each other since cycle 1"
    found = [str(outcome(cycles).repetition or "") for cycles in (11, 12, 20)]
    assert found == ["", expected, expected]


def test_a_run_that_comes_to_rest_says_nothing() -> None:
    """Nor one in which nobody comes back."""
    assert outcome(20, volcano=False).repetition is None
    gone = outcome(20, evicted_return=False)
    assert (len(gone.evicts), gone.repetition) == (1, None)
