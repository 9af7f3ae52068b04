"""Affinity between pods and topology spread: the columns against a slow search."""

import random

from hypothesis import given, strategies

from tests import running
from tests.properties import clusters, pod_affinity_clusters
from tests.properties import pod_affinity_by_hand as by_hand
from tests.properties.pod_affinity_by_hand import Document, Seat, World
from vscheduler.core.session.session import Session
from vscheduler.core.session.statement import Statement
from vscheduler.model.decisions import Evict
from vscheduler.model.jobs import Task, TaskStatus

OFF = ("leastrequested", "balancedresource", "tainttoleration")
TIERS = f"predicates nodeorder:{','.join(f'{name}.weight=0' for name in OFF)}"


class Trial:
    """Random steps in a statement, here and there."""

    def __init__(self, documents: list[Document], chance: random.Random) -> None:
        self.session = running.open_session(
            documents, {"actions": "allocate", "tiers": running.tiers(TIERS)}
        )
        self.chance = chance
        self.pods = {
            by_hand.name_of(document): document
            for document in documents
            if document["kind"] == "Pod"
        }
        self.world = World(
            nodes={
                document["metadata"]["name"]: document
                for document in documents
                if document["kind"] == "Node"
            },
            namespaces={
                document["metadata"]["name"]: by_hand.labels(document)
                for document in documents
                if document["kind"] == "Namespace"
            },
        )
        for key, pod in self.pods.items():
            if "nodeName" in pod["spec"]:
                gone = "deletionTimestamp" in pod["metadata"]
                self.world.seats[key] = (
                    pod,
                    pod["spec"]["nodeName"],
                    by_hand.LEAVES if gone else by_hand.STAYS,
                )
        self.tasks = [
            task for state in self.session.job_states.values() for task in state.job.tasks
        ]

    def of(self, *statuses: TaskStatus) -> list[Task]:
        """Tasks that stand so now."""
        found = [task for task in self.tasks if self.status(task) in statuses]
        return sorted(found, key=lambda task: task.uid)

    def status(self, task: Task) -> TaskStatus:
        """How the task stands."""
        return self.session.job_state_of(task).status(task)

    def step(self, trial: Statement) -> None:
        """Place a task where it may go, or anywhere, or evict one."""
        waiting = self.of(TaskStatus.PENDING)
        running_ones = self.of(TaskStatus.RUNNING)
        if waiting and (not running_ones or self.chance.random() < 0.7):
            task = self.chance.choice(waiting)
            row = self.chance.randrange(self.session.layout.size)
            idle = self.chance.random() < 0.5
            (trial.allocate if idle else trial.pipeline)(task, row)
            place = self.session.layout.names[row]
            pod = self.pods[task.key]
            self.world.seats[task.key] = (pod, place, by_hand.STAYS if idle else by_hand.COMES)
        elif running_ones:
            task = self.chance.choice(running_ones)
            assert task.node is not None
            evict = Evict(task=task, node=task.node, action="preempt", beneficiary=None)
            trial.evict(evict)
            pod, place, _ = self.world.seats[task.key]
            self.world.seats[task.key] = (pod, place, by_hand.LEAVES)

    def check(self) -> None:
        """Both ways of looking at it say the same of every waiting task."""
        for task in self.of(TaskStatus.PENDING):
            pod = self.pods[task.key]
            now, later = by_hand.allowed(self.world, pod)
            names = self.session.layout.names
            feasible = {
                name for row, name in enumerate(names) if self.session.placement.feasible(task, row)
            }
            assert feasible == later, (task.key, feasible, later)
            choice = self.session.placement.choose(task)
            assert (choice is None) == (not later)
            if choice is not None:
                assert choice.idle == bool(now), (task.key, now, later)
                self.check_best(pod, now or later, names[choice.row])

    def check_best(self, pod: Document, names: set[str], chosen: str) -> None:
        """The first by name of those with the best score."""
        likes = by_hand.liking(self.world, pod, names)
        even = by_hand.evenness(self.world, pod, names)
        scores = {name: 2 * likes[name] + 2 * even[name] for name in names}
        most = max(scores.values())
        best = min(name for name, score in scores.items() if score == most)
        assert chosen == best, (scores, chosen)


def open_trial(seed: int) -> Trial:
    """A random cluster."""
    chance = random.Random(seed)
    return Trial(pod_affinity_clusters.documents(chance), chance)


@clusters.bounded(400)
@given(strategies.integers(0, 2**32))
def test_columns_see_the_neighbours_that_a_slow_search_sees(seed: int) -> None:
    """Filters and scores, as pods are placed, promised room and evicted, and all of it undone."""
    found = open_trial(seed)
    found.check()
    with found.session.statement() as trial:
        marks: list[tuple[int, dict[str, Seat]]] = []
        for _ in range(found.chance.randint(1, 8)):
            if found.chance.random() < 0.3:
                marks.append((trial.checkpoint(), dict(found.world.seats)))
            found.step(trial)
            if marks and found.chance.random() < 0.3:
                mark, seats = marks.pop()
                trial.rollback(mark)
                found.world.seats = seats
            if found.chance.random() < 0.5:
                found.check()
        found.check()


def spread_out(session: Session) -> list[tuple[str, bool]]:
    """What every waiting task may use."""
    tasks = [task for state in session.job_states.values() for task in state.job.tasks]
    return [
        (task.key, session.placement.feasible(task, row))
        for task in tasks
        if task.status is TaskStatus.PENDING
        for row in range(session.layout.size)
    ]


@clusters.bounded(40)
@given(strategies.integers(0, 2**32))
def test_the_order_of_events_changes_nothing(seed: int) -> None:
    """Counts are the same, whoever was seen first."""
    documents = pod_affinity_clusters.documents(random.Random(seed))
    tree = {"actions": "allocate", "tiers": running.tiers(TIERS)}
    shuffled = random.Random(seed).sample(documents, len(documents))
    one, other = (running.open_session(each, tree) for each in (documents, shuffled))
    assert one.snapshot.affinity_index == other.snapshot.affinity_index
    assert spread_out(one) == spread_out(other)
