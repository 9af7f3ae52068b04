"""Gangs that are called hopeless, against a scheduler that tries them all the same."""

import pytest
from hypothesis import given, strategies

from tests import running
from tests.properties import clusters
from vscheduler.core.placement.feasibility import Feasibility
from vscheduler.model.decisions import CycleResult
from vscheduler.model.snapshot import FRESH
from vscheduler.testing import pictures

TREE = {"actions": "enqueue, allocate", "tiers": running.TREE["tiers"]}
CYCLES = 4


@strategies.composite
def demanding(draw: strategies.DrawFn) -> str:
    """A cluster, and gangs that are near to what it can hold, most of them of several sizes."""
    picture = draw(clusters.pictures())
    queues = [line.split()[1] for line in picture.splitlines() if line.split()[:1] == ["queue"]]
    lines = [picture]
    for number in range(draw(strategies.integers(1, 6))):
        sizes = draw(
            strategies.lists(strategies.sampled_from((1, 3, 9, 17)), min_size=1, max_size=9)
        )
        least = draw(strategies.integers(1, len(sizes)))
        roles = [draw(strategies.sampled_from("mw")) for _ in sizes]
        asked = draw(strategies.booleans()) and {role: roles.count(role) for role in set(roles)}
        minima = ",".join(f"{role}:{count}" for role, count in sorted((asked or {}).items()))
        least = len(sizes) if minima else least
        pods = " ".join(f"{role}:-@{size}" for role, size in zip(roles, sizes, strict=True))
        queue = draw(strategies.sampled_from(queues))
        setting = f"roles={minima}" if minima else ""
        lines.append(f"job {queue}/hard{number} phase=Pending min={least} {setting} {pods}")
    return "\n".join(lines)


def history(picture: str) -> list[CycleResult]:
    """Some cycles, each after what the one before decided."""
    documents, carried, results = pictures.documents(picture), FRESH, []
    for _ in range(CYCLES):
        results.append(running.run(documents, TREE, carried=carried))
        documents = running.obey(documents, results[-1])
        carried = results[-1].carried
    return results


@clusters.bounded(60)
@given(demanding())
def test_nothing_that_could_start_is_called_hopeless(picture: str) -> None:
    """The same binds and promises in every cycle, whether or not such gangs are let in."""
    with_proof = history(picture)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Feasibility, "obstacle", lambda *_: None)
        without = history(picture)
    assert [placed(result) for result in with_proof] == [placed(result) for result in without]


def placed(result: CycleResult) -> list[tuple[str, str]]:
    """Pods and their nodes, those that wait there as well."""
    binds = [(bind.task.name, bind.node) for bind in result.binds]
    return binds + [(each.task.name, each.node) for each in result.pipelined]


@clusters.bounded(60)
@given(
    strategies.lists(strategies.integers(1, 12), min_size=1, max_size=4),
    strategies.integers(1, 5),
    strategies.integers(1, 12),
)
def test_of_equal_pods_exactly_those_gangs_are_hopeless_that_have_too_few_seats(
    nodes: list[int], cpu: int, least: int
) -> None:
    """On empty nodes: what isn't hopeless is bound."""
    lines = [f"node n{at} cpu={size}" for at, size in enumerate(nodes)]
    lines.append(f"queue q job q/a phase=Pending min={least} cpu={cpu} -*{least}")
    (result,) = history("\n".join(lines))[:1]
    fits = sum(size // cpu for size in nodes) >= least
    assert len(result.binds) == (least if fits else 0)
    (status,) = result.groups
    assert status.phase == ("Inqueue" if fits else "Pending")
