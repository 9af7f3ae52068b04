"""What one cycle makes of a picture, in words that compare and read well."""

from dataclasses import dataclass

from tests import checks, pictures, running
from vscheduler.core.model import decisions
from vscheduler.simulator import run

SETTLING_CYCLES = 5


@dataclass(frozen=True, slots=True, order=True)
class Decision:
    """One decision: `bind greedy-3 n1`; pods of the pictures' namespace go without it."""

    what: str
    pod: str
    node: str

    def __repr__(self) -> str:
        return f"{self.what}({self.pod!r}, {self.node!r})"


def bind(pod: str, node: str) -> Decision:
    """The pod goes to the node, now."""
    return Decision("bind", pod, node)


def pipeline(pod: str, node: str) -> Decision:
    """The pod waits on the node for room that is being freed, or for the rest of its gang."""
    return Decision("pipeline", pod, node)


def decide(picture: str, actions: str, tiers: str = running.STANDARD) -> list[Decision]:
    """The decisions of one cycle, sorted, after they were checked from outside and settled.

    tiers is short for a configuration's: see running.tiers.
    """
    documents = pictures.documents(picture)
    outcome = run.simulate(
        documents,
        running.policy_of({"actions": actions, "tiers": running.tiers(tiers)}),
        run.Options(cycles=1 + SETTLING_CYCLES),
    )
    assert outcome.problems == ()
    first, *later = outcome.results
    assert checks.problems(documents, first, gangs="gang" in tiers) == []
    settle(documents, later)
    return written(first)


def settle(documents: list[pictures.Document], later: list[decisions.CycleResult]) -> None:
    """After the decisions were obeyed nothing moves, once pods that were being deleted are gone."""
    leaving = any("deletionTimestamp" in document["metadata"] for document in documents)
    assert [written(result) for result in later[leaving:]] == [[]] * (len(later) - leaving)


def written(result: decisions.CycleResult) -> list[Decision]:
    """A result's decisions, sorted."""
    found = [bind(each.task.name, each.node) for each in result.binds]
    found += [pipeline(each.task.name, each.node) for each in result.pipelined]
    return sorted(found)
