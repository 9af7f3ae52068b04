"""What queues request, with jobs that were added up before."""

from tests.unit.core import sessions
from vscheduler.core.shares.demands import CountedPod, CountedPods, Pair, Place, QueueDemands
from vscheduler.model.jobs import Job, JobId, PodClass

CLASSES = {name: PodClass(request={"cpu": 1, "pods": 1}) for name in "xyz"}


def job(name: str, queue: str, *classes: str) -> Job:
    """Return a job of the queue with a waiting pod of each of these classes."""
    found = {CLASSES[each]: (0, 1) for each in classes}
    return Job(
        id=JobId(name),
        uid=name,
        namespace="ns",
        name=name,
        queue=queue,
        created=0.0,
        classes=found,
    )


EVERY = (
    *(job("a", "q", "y", "x"), job("b", "r", "z"), job("c", "q", "x"), job("d", "p", "x")),
    *(job("e", "r", "x"), job("f", "q", "z")),
)


def places(asked: QueueDemands) -> dict[Pair, Place]:
    """Return where pods of each pair come first."""
    found = {pair: each.place for pair, each in asked.active.items()}
    for pair, each in asked.unschedulable.pods.items():
        found[pair] = min(found.get(pair, each[:2]), each[:2])
    return found


def test_counted_jobs_stand_where_they_would_have_stood() -> None:
    """The order is that of all jobs, whichever of them are counted."""
    whole = QueueDemands(sessions.SPACE, EVERY)
    for left_out in ("b", "c", "d", "bc", "bde", "cf", "bcdef"):
        pods = {
            (each.queue, pod_class): CountedPod(each.id, 0, each.queue, pod_class, 0, 1)
            for each in EVERY
            for pod_class in list(each.classes)[:1]
            if each.id in left_out
        }
        active = [each for each in EVERY if each.id not in left_out]
        queues = {each.queue: each.id for each in reversed(EVERY) if each.id in left_out}
        counted = CountedPods(pods=pods, queues=queues)
        found = QueueDemands(sessions.SPACE, active, unschedulable=counted)
        assert places(found) == places(whole)
        assert found.queues == whole.queues
        assert found.pending == whole.pending
