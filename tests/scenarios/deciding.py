"""What one cycle makes of a picture, in words that compare and read well."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from tests import checks, running
from vscheduler.model.decisions import Bind, CycleResult, Evict, Pipeline
from vscheduler.simulator import run
from vscheduler.simulator.run import Options
from vscheduler.testing import pictures
from vscheduler.testing.pictures import Document

SETTLING_CYCLES = 5


@dataclass(frozen=True, slots=True, eq=False)
class Decision:
    """One decision: `bind greedy-3 n1`; pods of the pictures' namespace go without it.

    What isn't said (an eviction's node, or whom it is for) is equal to anything.
    """

    what: str
    pod: str
    node: str = ""
    for_: str = ""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Decision):
            return NotImplemented
        return (self.what, self.pod) == (other.what, other.pod) and all(
            not (mine and theirs) or mine == theirs
            for mine, theirs in ((self.node, other.node), (self.for_, other.for_))
        )

    def __hash__(self) -> int:
        return hash((self.what, self.pod))

    def __repr__(self) -> str:
        parts = [repr(self.pod)]
        parts += [repr(self.node)] if self.node else []
        parts += [f"for_={self.for_!r}"] if self.for_ else []
        return f"{self.what}({', '.join(parts)})"


def bind(pod: str, node: str) -> Decision:
    """The pod goes to the node, now."""
    return Decision("bind", pod, node)


def pipeline(pod: str, node: str) -> Decision:
    """The pod waits on the node for room that is being freed, or for the rest of its gang."""
    return Decision("pipeline", pod, node)


def evict(pod: str, node: str = "", for_: str = "") -> Decision:
    """The pod is told to go, from the node, so that the job can start."""
    return Decision("evict", pod, node, for_)


def decide(picture: str, actions: str, tiers: str = running.STANDARD) -> list[Decision]:
    """The decisions of one cycle, sorted, after they were checked from outside and unchanged.

    tiers is short for a configuration's: see running.tiers.
    """
    documents = pictures.documents(picture)
    outcome = run.simulate(
        documents,
        running.policy_of({"actions": actions, "tiers": running.tiers(tiers)}),
        Options(cycles=1 + SETTLING_CYCLES),
    )
    assert outcome.problems == ()
    first = outcome.results[0]
    assert checks.problems(documents, first, gangs="gang" in tiers) == []
    settle(documents, outcome.results)
    return written(first)


def settle(documents: list[Document], results: Sequence[CycleResult]) -> None:
    """After the first cycle's decisions were obeyed, only what they make room for happens.

    Pods that were being deleted are gone in the second cycle, those that the first evicted in the
    third: whoever waits for their room binds then, and after that nothing moves. Nobody is
    evicted any more, and no eviction was for nothing.
    """
    first, *later = results
    leaving = any("deletionTimestamp" in document["metadata"] for document in documents)
    pause = 2 if first.evicts else int(leaving)
    assert [result.evicts for result in later] == [()] * len(later)
    assert [written(result) for result in later[pause:]] == [[]] * (len(later) - pause)
    started = {bind.task.job for result in later for bind in result.binds}
    assert {evict.beneficiary for evict in first.evicts} <= {None, *started}


def written(result: CycleResult) -> list[Decision]:
    """A result's decisions: binds, evictions, pipelined pods, each sorted by name."""
    return [
        *(bind(each.task.name, each.node) for each in by_pod(result.binds)),
        *(evict(each.task.name, each.node, _job(each)) for each in by_pod(result.evicts)),
        *(pipeline(each.task.name, each.node) for each in by_pod(result.pipelined)),
    ]


T = TypeVar("T", Bind, Evict, Pipeline)


def by_pod(found: Sequence[T]) -> list[T]:
    """Sorted by the pod's name, then by node."""
    return sorted(found, key=lambda each: (each.task.name, each.node))


def _job(eviction: Evict) -> str:
    return (eviction.beneficiary or "").rpartition("/")[2]
