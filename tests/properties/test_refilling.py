from hypothesis import given, strategies

from tests import running
from tests.properties import clusters
from vscheduler.model.decisions import CycleResult
from vscheduler.testing import pictures


@strategies.composite
def queues(draw: strategies.DrawFn) -> tuple[str, str]:
    """A cluster of one queue in which gangs have lost pods; and jobs that haven't started."""
    nodes = [draw(strategies.integers(1, 4)) for _ in range(draw(strategies.integers(1, 5)))]
    free = list(nodes)
    lines = [f"node n{at} cpu={cpu}" for at, cpu in enumerate(nodes)]
    lines.append("queue q")
    for number in range(draw(strategies.integers(1, 3))):
        at = draw(strategies.integers(0, len(nodes) - 1))
        if free[at]:
            free[at] -= 1
            lost = draw(strategies.integers(1, 3))
            age = draw(strategies.integers(0, 3))
            lines.append(f"job q/broken{number} min={1 + lost} age={age} n{at} {'- ' * lost}")
    fresh = [
        f"job q/fresh{number} min={pods} age={draw(strategies.integers(0, 9))} {'- ' * pods}"
        for number, pods in enumerate(draw(strategies.lists(strategies.integers(1, 3), max_size=4)))
    ]
    return "\n".join(lines), "\n".join(fresh)


@clusters.bounded(200)
@given(queues())
def test_jobs_that_have_not_started_take_nothing_from_broken_gangs(drawn: tuple[str, str]) -> None:
    """Gangs below their minimum get the very pods placed that they would get alone."""
    broken, fresh = drawn
    alone = running.run(pictures.documents(broken), running.TREE)
    beside = running.run(pictures.documents(f"{broken}\n{fresh}"), running.TREE)
    refilled = {name for name in bound(beside) if name.startswith("broken")}
    assert refilled == bound(alone)


def bound(result: CycleResult) -> set[str]:
    """The pods that got a node."""
    return {bind.task.name for bind in result.binds}
