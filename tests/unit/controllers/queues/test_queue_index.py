"""What counts as known of Kopf's indices."""

from functools import partial

from tests.unit.mirror import manifests
from vscheduler.controllers.podgroups import podgroup_lister
from vscheduler.controllers.podgroups.podgroup_lister import StatusEvidence
from vscheduler.controllers.queues.queue_index import Indices, QueueIndex
from vscheduler.controllers.queues.queue_objects import Group, Queue
from vscheduler.mirror.decode.events import Kind, Remove
from vscheduler.mirror.state import Mirror, Options
from vscheduler.model import jobs
from vscheduler.model.jobs import JobId


def a_queue(name: str, uid: str = "", version: int = 1, parent: str = "") -> Queue:
    """A Queue in some version."""
    return Queue(name=name, uid=uid or name, version=str(version), parent=parent)


def a_group(name: str, queue: str = "red", counter: str = "running") -> Group:
    """A PodGroup."""
    return Group(uid=name, version="1", queue=queue, counter=counter, key=JobId(f"ns/{name}"))


def an_index(queues: list[Queue], groups: list[Group]) -> tuple[QueueIndex, Indices]:
    """One of these objects, and what is beneath."""
    held: dict[str, list[Group]] = {}
    for group in groups:
        held.setdefault(group.queue, []).append(group)
    named: dict[str, list[Queue]] = {}
    for queue in queues:
        named.setdefault(queue.name, []).append(queue)
    indices = Indices(queues=named, podgroups=held, commands={})
    return QueueIndex(indices, "default"), indices


def test_of_two_queues_with_a_name_the_one_written_last_counts() -> None:
    """A queue that was made anew may be indexed before the old one is gone."""
    index, _ = an_index([a_queue("red", "old", 7), a_queue("red", "new", 9)], [])
    assert index.queues["red"].uid == "new"


def test_groups_count_in_the_queue_that_they_name_or_the_default_one() -> None:
    """By the field of their status."""
    groups = [a_group("a"), a_group("b", counter="pending"), a_group("c", ""), a_group("d", "")]
    index, _ = an_index([], groups)
    assert index.counts == {"red": {"running": 1, "pending": 1}, "default": {"running": 2}}


def test_groups_count_where_their_pods_are() -> None:
    """A status that says more than the pods is doubted, whenever it is asked for."""
    mirror = manifests.mirror(manifests.group("a", {}), manifests.pod("p", group="a"))
    _, indices = an_index([], [a_group("a")])
    index = QueueIndex(indices, "default", StatusEvidence(mirror).counter)
    assert index.counts == {"red": {"pending": 1}}
    mirror.apply(manifests.event_of(manifests.pod("p", group="a", node="n1")))
    assert index.counts == {"red": {"running": 1}}


def test_pods_without_a_podgroup_count_as_their_podgroups_would() -> None:
    """Those that run, wait or have ended, each in its queue; a queue with pods isn't empty."""
    in_red = {"scheduling.volcano.sh/queue-name": "red"}
    mirror = Mirror(Options(scheduler_names=("vscheduler",), spares_groups=True))
    for document in (
        manifests.pod("a", node="n1", metadata={"annotations": in_red}),
        manifests.pod("b", metadata={"annotations": in_red}),
        manifests.pod("c", node="n1", phase="Succeeded"),
    ):
        mirror.apply(manifests.event_of(document))
    alone = partial(podgroup_lister.lone_counts, mirror)
    indices = Indices(queues={}, podgroups={"red": [a_group("a")]}, commands={})
    index = QueueIndex(indices, "default", alone=alone)
    assert index.counts == {"red": {"running": 2, "pending": 1}, "default": {"completed": 1}}
    assert index.alone == {"red": 2, "default": 1}
    index.compare([], [])
    assert not index.may_release(a_queue("red"))
    assert index.may_release(a_queue("blue"))
    for pod in list(mirror.members(JobId("ns/a@pod"))):
        mirror.apply(Remove(kind=Kind.POD, namespace="ns", name="a", uid=pod.uid))
    assert index.counts["red"] == {"running": 1, "pending": 1}


def test_groups_of_both_apis_count_where_their_pods_are() -> None:
    """Also two of one name."""
    native = Group(
        uid="n", version="1", queue="red", counter="running", key=jobs.native_id("ns", "a")
    )
    pod = manifests.pod("p", node="n1")
    pod["spec"]["schedulingGroup"] = {"podGroupName": "a"}
    mirror = manifests.mirror(pod)
    indices = Indices(
        queues={}, podgroups={"red": [a_group("a")]}, commands={}, nativepodgroups={"red": [native]}
    )
    index = QueueIndex(indices, "default", StatusEvidence(mirror).counter)
    assert index.counts == {"red": {"pending": 1, "running": 1}}


def test_what_a_list_lacks_has_gone() -> None:
    """Kopf doesn't hear of what goes while it has no connection."""
    index, _ = an_index([a_queue("red"), a_queue("blue")], [a_group("a"), a_group("b")])
    index.begin()
    index.compare([a_queue("red")], [a_group("b")])
    assert list(index.queues) == ["red"]
    assert index.counts == {"red": {"running": 1}}


def test_what_comes_during_a_list_stays() -> None:
    """The list may be older."""
    index, indices = an_index([], [])
    index.begin()
    held: dict[str, list[Group]] = indices.podgroups  # type: ignore[assignment]  # a watch's
    held["red"] = [a_group("late")]
    index.compare([], [])
    assert index.counts == {"red": {"running": 1}}


def test_an_index_is_complete_once_it_has_all_that_is_listed() -> None:
    """Before, a queue would be told that it has fewer PodGroups; later it may lag."""
    index, indices = an_index([a_queue("red")], [])
    index.begin()
    index.compare([a_queue("red")], [a_group("a")])
    found = [index.complete]
    held: dict[str, list[Group]] = indices.podgroups  # type: ignore[assignment]  # a watch's
    held["red"] = [a_group("a")]
    index.begin()
    index.compare([a_queue("red")], [a_group("a")])
    found.append(index.complete)
    index.begin()
    index.compare([a_queue("red")], [a_group("a"), a_group("b")])
    assert [*found, index.complete] == [False, True, True]


def test_what_went_during_a_list_is_not_missed() -> None:
    """Where PodGroups go all the time, no list would ever have just what is indexed after it."""
    index, indices = an_index([a_queue("red")], [a_group("a")])
    index.begin()
    held: dict[str, list[Group]] = indices.podgroups  # type: ignore[assignment]  # a watch's
    del held["red"]
    index.compare([a_queue("red")], [a_group("a")])
    assert index.complete


def test_a_queue_with_something_in_it_is_not_released() -> None:
    """Whatever the index has: PodGroups, those of the default queue, and child queues."""
    index, _ = an_index([], [])
    names = ("red", "top", "default", "root", "blue")
    index.begin()
    index.compare([a_queue("leaf", parent="top")], [a_group("a"), a_group("b", "")])
    released = [name for name in names if index.may_release(a_queue(name))]
    assert released == ["root", "blue"]
    index.compare([a_queue("top")], [])
    assert not index.may_release(a_queue("root"))
