import random
from collections import Counter
from collections.abc import Callable, Iterator

import numpy as np
from hypothesis import given, strategies
from msgspec.structs import replace

from tests.properties import clusters, pod_affinity_clusters
from tests.unit.mirror import manifests
from vscheduler.mirror.decode import events
from vscheduler.mirror.decode.events import Kind
from vscheduler.mirror.decode.fields import FieldError
from vscheduler.mirror.decode.wire import NativePodGroup, Pod, PodGroup
from vscheduler.mirror.state import Mirror
from vscheduler.mirror.translate import translation
from vscheduler.mirror.translate.pods import Translator
from vscheduler.model import jobs
from vscheduler.model.jobs import HOLDING, Job, JobId, PodClass, TaskId
from vscheduler.model.jobs_by_id import JobsById
from vscheduler.model.queues import DEFAULT
from vscheduler.model.snapshot import Snapshot

Document = manifests.Document
Key = tuple[str, str]
CHANCE = strategies.randoms(use_true_random=False)


def some_node(chance: random.Random) -> Document:
    """One of three nodes, now and then with a gpu, out of sight, or broken."""
    amounts = {"cpu": chance.choice(("4", "8")), "pods": "10"}
    amounts |= {"example.com/gpu": "2"} if chance.random() < 0.3 else {}
    amounts |= {"memory": "much"} if chance.random() < 0.1 else {}
    labels = {"seen": chance.choice(("yes", "yes", "no"))}
    spec = {"unschedulable": chance.random() < 0.2}
    return manifests.node(f"n{chance.randrange(3)}", amounts, labels=labels, spec=spec)


def some_pod(chance: random.Random) -> Document:
    """One of six pods, each of two lives, in any state."""
    name = f"p{chance.randrange(6)}"
    node = chance.choice(("", "n0", "n1", "n2"))
    document = manifests.pod(
        name,
        uid=f"{name}-{chance.randrange(2)}",
        group=chance.choice(("", "g0", "g1", "g2")),
        node=node,
        phase=chance.choice(("Pending", "Running", "Succeeded") if node else ("Pending", "Failed")),
        scheduler=chance.choice((manifests.OURS, manifests.OURS, "other")),
        requests=chance.choice(({"cpu": "1"}, {"cpu": "2", "example.com/fpga": "1"}, {})),
    )
    if chance.random() < 0.2:
        document["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    if chance.random() < 0.3:
        document["status"]["nominatedNodeName"] = chance.choice(("n0", "n1"))
        document["spec"]["priority"] = chance.randrange(3)
    if chance.random() < 0.3:
        document["spec"]["schedulingGroup"] = {"podGroupName": chance.choice(("g0", "g1", "g2"))}
    if chance.random() < 0.1:
        document["spec"]["tolerations"] = [{"value": "no key"}]
    if chance.random() < 0.2:
        document["metadata"]["labels"] = {"a": chance.choice("xy")}
        document["metadata"]["annotations"]["volcano.sh/revocable-zone"] = "*"
        document["spec"]["containers"][0]["ports"] = [{"hostPort": chance.randrange(80, 82)}]
    if chance.random() < 0.5:
        look = pod_affinity_clusters.shape(chance)
        document["metadata"]["labels"] = look["labels"]
        document["spec"] |= look["spec"]
    return document


def some_group(chance: random.Random) -> Document:
    """One of three PodGroups."""
    least = chance.choice((None, {"cpu": "1"}, {"example.com/tpu": "1"}, {"cpu": "x"}))
    spec = {
        "queue": chance.choice(("", "q0", "q1")),
        "minMember": chance.randrange(3),
        "priorityClassName": chance.choice(("", "c0", "c1")),
        "minResources": least,
    }
    return manifests.group(f"g{chance.randrange(3)}", spec, status={"phase": "Inqueue"})


def some_native_group(chance: random.Random) -> Document:
    """One of three PodGroups of Kubernetes' own API, by the same names as Volcano's."""
    name, queue = f"g{chance.randrange(3)}", chance.choice(("", "q0", "q1"))
    gang = {"gang": {"minCount": chance.randrange(-1, 3)}}
    spec: Document = {
        "schedulingPolicy": chance.choice((gang, {"basic": {}})),
        "priority": chance.choice((0, 0, 1)),
        "disruptionMode": chance.choice(({"all": {}}, {"single": {}})),
    }
    if chance.random() < 0.2:
        spec["schedulingConstraints"] = {"topology": [{"key": chance.choice(("", "rack"))}]}
    return {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {
            "name": name,
            "namespace": "ns",
            "uid": f"{name}-{chance.randrange(2)}",
            "annotations": {translation.QUEUE: queue},
        },
        "spec": spec,
    }


def some_queue(chance: random.Random) -> Document:
    """One of two queues; weight 0 is refused."""
    return manifests.queue(f"q{chance.randrange(2)}", {"weight": chance.randrange(3)})


def some_budget(chance: random.Random) -> Document:
    """One of two budgets; a selector that no label can meet is refused."""
    selector = chance.choice((None, {}, {"matchExpressions": [{"key": "a", "operator": "Gt"}]}))
    return manifests.budget(f"b{chance.randrange(2)}", selector, allowed=chance.randrange(3))


def some_quota(chance: random.Random) -> Document:
    """One of two quotas; now and then about nothing that pods request."""
    hard = chance.choice(({"cpu": "4"}, {"requests.cpu": "2", "pods": "3"}, {"services": "1"}))
    return manifests.quota(f"l{chance.randrange(2)}", hard, {"cpu": str(chance.randrange(3))})


def some_class(chance: random.Random) -> Document:
    """One of two priority classes."""
    name = f"c{chance.randrange(2)}"
    return manifests.priority_class(name, chance.randrange(9), default=chance.random() < 0.5)


def some_namespace(chance: random.Random) -> Document:
    """The pods' own, or another one, with labels that come and go."""
    return pod_affinity_clusters.namespace(chance, chance.choice(("ns", "lab")))


MAKERS: tuple[Callable[[random.Random], Document], ...] = (
    *(some_pod, some_pod, some_pod, some_node, some_group, some_group, some_queue, some_class),
    *(some_budget, some_quota, some_namespace, some_native_group, some_native_group),
)


def fresh() -> Mirror:
    """A Mirror that has seen nothing."""
    return manifests.mirror(node_selector=(("seen", "yes"),))


def key_of(document: Document) -> Key:
    """What makes it one object: a pod's UID, else its name."""
    metadata = document["metadata"]
    name = metadata["uid"] if document["kind"] == "Pod" else metadata["name"]
    return str(events.kind_of(document)), name


class History:
    """Random events on a Mirror, with a plain account of the objects that should be left."""

    def __init__(self, chance: random.Random) -> None:
        self.mirror = fresh()
        self.left: dict[Key, Document] = {}
        self._chance = chance
        self._version = 100

    def step(self) -> None:
        """One event, or one bind or eviction that is sent, fails, or is given up."""
        rare = (self._repeat, self._replace, self._bind, self._evict)
        act = self._chance.choice((*[self._upsert] * 8, *[self._remove] * 2, *rare))
        act()
        if self._chance.random() < 0.3:
            check_seats(self.mirror.snapshot(0.0))

    def _upsert(self) -> None:
        document = self._chance.choice(MAKERS)(self._chance)
        self._version += 1
        document["metadata"]["resourceVersion"] = str(self._version)
        self.left[key_of(document)] = document
        self.mirror.apply(manifests.event_of(document))

    def _repeat(self) -> None:
        """An old version of something that is there: it must change nothing."""
        document = self._chance.choice(MAKERS)(self._chance)
        document["metadata"]["resourceVersion"] = "1"
        if key_of(document) in self.left:
            assert not self.mirror.apply(manifests.event_of(document))

    def _remove(self) -> None:
        if self.left:
            document = self.left.pop(self._chance.choice(sorted(self.left)))
            self.mirror.apply(manifests.removal_of(document))
            assert not self.mirror.apply(manifests.removal_of(document))

    def _replace(self) -> None:
        kind = self._chance.choice(tuple(Kind))
        of_kind = sorted(key for key in self.left if key[0] == kind)
        for key in of_kind:
            if self._chance.random() < 0.3:
                del self.left[key]
        left = (self.left[key] for key in of_kind if key in self.left)
        manifests.show_list(self.mirror, kind, *left)

    def _bind(self) -> None:
        task = TaskId(f"p{self._chance.randrange(6)}-{self._chance.randrange(2)}")
        self.mirror.assume(task, "n1", now=float(self._chance.randrange(100)))
        if self._chance.random() < 0.3:
            self.mirror.forget(task)

    def _evict(self) -> None:
        task = TaskId(f"p{self._chance.randrange(6)}-{self._chance.randrange(2)}")
        self.mirror.evicting(task, now=float(self._chance.randrange(100)))
        if self._chance.random() < 0.3:
            self.mirror.forget_eviction(task)


def check_seats(found: Snapshot) -> None:
    """Seats, and what is ours on nodes, are what the jobs' tasks say, one by one."""
    seats: Counter[tuple[PodClass, str, str]] = Counter()
    ours = np.zeros_like(found.nodes.used)
    for job in found.jobs:
        for task in job.tasks:
            if task.status in HOLDING:
                assert task.node is not None
                seats[task.pod_class, task.node, job.queue] += 1
                if task.node in found.nodes.layout.rows:
                    row = found.nodes.layout.rows[task.node]
                    ours[row] += found.space.vector(task.pod_class.request)
    counted = manifests.seats(found)
    assert seats == {
        (pod_class, node, queue): count
        for pod_class, places in counted.items()
        for node, queue, count in places
    }
    assert all(places == sorted(places) for places in counted.values())
    assert found.nodes.ours.tolist() == ours.tolist()


def job_of(group: PodGroup | NativePodGroup) -> Job:
    """The job of a PodGroup of either kind; FieldError if it can't be used."""
    if isinstance(group, PodGroup):
        return translation.pod_group(group, DEFAULT).job
    return translation.native_pod_group(group).job


def held_elsewhere(documents: list[Document]) -> dict[str, Counter[str]]:
    """By queue, the requests of other schedulers' pods, one by one."""
    owners: dict[JobId, str] = {}
    found = [
        manifests.read(document)
        for document in documents
        if document["kind"] in ("Pod", "PodGroup")
    ]
    for group in found:
        if isinstance(group, PodGroup | NativePodGroup):
            try:
                job = job_of(group)
            except FieldError:
                continue
            if job.queue:
                owners[job.id] = job.queue
    held: dict[str, Counter[str]] = {}
    translator = Translator((manifests.OURS,))
    for each in found:
        pod = translator.pod(each) if isinstance(each, Pod) else None
        if pod and not pod.ours and pod.status in HOLDING and pod.group in owners:
            held.setdefault(owners[pod.group], Counter()).update(pod.pod_class.request)
    return held


def views(seen: Mirror) -> Iterator[object]:
    """Everything that a Mirror says about the cluster, but for pods that succeeded and are gone:
    only who saw them knows of those that no status counts yet.
    """
    snapshot = seen.snapshot(0.0)
    left = JobsById.of(map(jobs.without_gone, snapshot.jobs))
    yield manifests.canonical(replace(snapshot, jobs=left))
    yield sorted(seen.rejections.items())
    yield manifests.names(seen.ungrouped())


@clusters.bounded(600)
@given(CHANCE, strategies.integers(0, 60))
def test_only_what_is_left_counts(chance: random.Random, steps: int) -> None:
    """After any history, the same as a Mirror that saw the last objects only, in any order."""
    history = History(chance)
    for _ in range(steps):
        history.step()
    history.mirror.expire(now=1e9)
    assert history.mirror.assumed == 0
    documents = list(history.left.values())
    found = history.mirror.snapshot(0.0)
    check_seats(found)
    assert found.used_by_other_schedulers == held_elsewhere(documents)
    chance.shuffle(documents)
    other = fresh()
    for document in documents:
        other.apply(manifests.event_of(document))
    assert list(views(history.mirror)) == list(views(other))
