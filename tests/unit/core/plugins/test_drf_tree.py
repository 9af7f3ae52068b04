import pytest

from tests.unit.core import sessions
from tests.unit.core.sessions import Opened
from vscheduler.core.compat.plugins import VolcanoDrf
from vscheduler.core.plugins import drf
from vscheduler.core.plugins.drf import Drf
from vscheduler.model.jobs import Task, TaskStatus
from vscheduler.model.queues import Queue

RUNNING = TaskStatus.RUNNING
ON = frozenset({"enableHierarchy"})


def queue(name: str, path: str = "", weights: str = "", weight: int = 1) -> Queue:
    """A queue at this place."""
    annotations = {drf.HIERARCHY: path, drf.WEIGHTS: weights} if path else {}
    return sessions.queue(name, weight=weight, annotations=annotations)


def opened(
    has: dict[str, int], *present: Queue, flags: frozenset[str] = ON, volcano: bool = False
) -> tuple[Drf, Opened]:
    """A job per queue, called like it, with so many of ten cores and nine more pods waiting."""
    session = sessions.opened(
        *(
            sessions.job(
                name,
                *(sessions.task(name, place, RUNNING) for place in range(count)),
                *(sessions.task(name, place) for place in range(count, count + 9)),
                queue=name,
            )
            for name, count in has.items()
        ),
        queues=present,
    )
    plugin = (VolcanoDrf if volcano else Drf)({}, flags)
    plugin.open(session)
    plugin.start()
    return plugin, session


def order(plugin: Drf, session: Opened) -> list[str]:
    """Queues by their keys, then by name."""
    keys = {name: plugin.queue_key(each) for name, each in session.queues.items()}
    return sorted(session.queues, key=lambda name: (keys[name], name))


def pods(session: Opened, job: str, count: int) -> list[Task]:
    """Running pods of the job, in order."""
    tasks = sorted(session.job_state(job).job.tasks, key=lambda task: len(task.uid))
    return tasks[:count]


def pending(session: Opened, job: str) -> Task:
    """The first pod of the job that waits."""
    return next(session.job_state(job).tasks(TaskStatus.PENDING))


def test_without_the_flag_queues_are_all_the_same_to_it() -> None:
    """It has no say then, in order or in reclaim."""
    plugin, session = opened({"a": 5, "b": 0}, queue("a"), queue("b"), flags=frozenset())
    assert plugin.queue_key(session.queues["a"]) is None
    assert plugin.reclaimable(pending(session, "b"), pods(session, "a", 2)) is None
    plugin.on_allocate(pending(session, "b"))


def test_branches_are_compared_from_the_root_down() -> None:
    """A queue below a branch that has more comes later, however little it has itself."""
    plugin, session = opened(
        {"sci": 3, "dev": 0, "prod": 4},
        queue("sci", "root/sci", "1/1"),
        queue("dev", "root/eng/dev", "1/1/1"),
        queue("prod", "root/eng/prod", "1/1/1"),
    )
    assert order(plugin, session) == ["sci", "dev", "prod"]
    for pod in list(session.job_state("sci").tasks(TaskStatus.PENDING))[:2]:
        plugin.on_allocate(pod)
    assert order(plugin, session) == ["dev", "prod", "sci"]
    for pod in list(session.job_state("sci").tasks(TaskStatus.PENDING))[:2]:
        plugin.on_deallocate(pod)
    assert order(plugin, session) == ["sci", "dev", "prod"]


def test_a_queue_without_a_place_stands_alone_with_its_weight() -> None:
    """Three of weight three is as much as one of weight one."""
    plugin, session = opened({"a": 4, "b": 3, "c": 1}, *map(queue, "ac"), queue("b", weight=3))
    assert plugin.queue_key(session.queues["b"]) == (0.0, 0.1, 0.0, 0.3)
    assert order(plugin, session) == ["c", "b", "a"]


@pytest.mark.parametrize(
    ("has", "volcano", "expected"),
    [
        (4, False, ["a-0", "a-1", "a-2"]),
        (4, True, ["a-0", "a-1", "a-2", "a-3"]),
        (2, False, ["a-0"]),
        (2, True, []),
        (1, False, []),
        (1, True, []),
    ],
)
def test_who_reclaims_stays_behind(has: int, volcano: bool, expected: list[str]) -> None:
    """With one core for itself, it may take the others' down to one. In Volcano it stays below
    them, and each pod is judged as if it were the only one.
    """
    plugin, session = opened({"a": has, "b": 0}, queue("a"), queue("b"), volcano=volcano)
    before = [plugin.queue_key(queue) for queue in session.queues.values()]
    victims = plugin.reclaimable(pending(session, "b"), pods(session, "a", has))
    assert victims is not None
    assert [task.name for task in victims] == expected
    assert [plugin.queue_key(queue) for queue in session.queues.values()] == before


@pytest.mark.parametrize(("volcano", "expected"), [(False, ["a-0", "a-1"]), (True, [])])
def test_queues_of_one_path_take_turns_but_are_one_to_volcano(
    volcano: bool, expected: list[str]
) -> None:
    """And nobody takes pods from itself."""
    paths = [queue(name, "root/e", "1/1") for name in "ab"]
    plugin, session = opened({"a": 3, "b": 0}, *paths, volcano=volcano)
    victims = plugin.reclaimable(pending(session, "b"), pods(session, "a", 3))
    assert victims is not None
    assert [task.name for task in victims] == expected


def test_no_queue_reclaims_from_itself() -> None:
    """Whatever it is asked."""
    plugin, session = opened({"a": 4}, queue("a"))
    assert plugin.reclaimable(pending(session, "a"), pods(session, "a", 4)) == []


def test_evictions_are_known_to_it() -> None:
    """What goes already is what the queue hasn't any more."""
    plugin, session = opened({"a": 4, "b": 0}, queue("a"), queue("b"))
    for pod in pods(session, "a", 2):
        plugin.on_deallocate(pod)
    victims = plugin.reclaimable(pending(session, "b"), pods(session, "a", 4)[2:])
    assert victims is not None
    assert [task.name for task in victims] == ["a-2"]
    for pod in pods(session, "a", 2):
        plugin.on_allocate(pod)
    victims = plugin.reclaimable(pending(session, "b"), pods(session, "a", 4)[2:])
    assert victims is not None
    assert [task.name for task in victims] == ["a-2", "a-3"]
