"""Volumes in whole cycles: what they keep from starting, and until when."""

from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from tests import running
from tests import volume_manifests as made
from tests.oracle import manifests
from vscheduler.core import cycle
from vscheduler.mirror import statuses
from vscheduler.mirror.decode import events
from vscheduler.mirror.decode.events import Upsert
from vscheduler.mirror.state import Mirror, Options
from vscheduler.mirror.wording import sentences
from vscheduler.model.decisions import CycleResult
from vscheduler.model.snapshot import FRESH
from vscheduler.testing import pictures

Document = dict[str, Any]

PLUGINS = "priority gang conformance | overcommit drf {} proportion nodeorder binpack"
GROUP = "scheduling.k8s.io/group-name"


class Cluster:
    """A mirror, and one cycle after the other on it."""

    def __init__(self, documents: Iterable[Document], actions: str, predicates: str) -> None:
        tiers = running.tiers(PLUGINS.format(predicates))
        self._policy = running.policy_of({"actions": actions, "tiers": tiers})
        self._mirror = Mirror(Options(scheduler_names=(pictures.SCHEDULER,)))
        self._carried = FRESH
        self.now = pictures.NOW.timestamp()
        self.show(manifests.QUEUE)
        for document in documents:
            self.show(document)

    def show(self, document: Document) -> None:
        """Show one object."""
        kind = events.kind_of(document)
        assert kind is not None
        self._mirror.apply(events.convert(kind, document))

    def remove(self, document: Document) -> None:
        """Show that an object is gone."""
        kind = events.kind_of(document)
        assert kind is not None
        found = events.convert(kind, document)
        assert isinstance(found, Upsert)
        self._mirror.apply(events.removal(found))

    def cycle(self, seconds: float = 1.0) -> CycleResult:
        """The next cycle, some seconds later."""
        self.now += seconds
        result = cycle.run_cycle(self._mirror.snapshot(self.now, self._carried), self._policy)
        self._carried = result.carried
        return result


def binds(result: CycleResult) -> dict[str, str]:
    """Nodes by pod."""
    return {bind.task.name: bind.node for bind in result.binds}


def why(result: CycleResult) -> str:
    """The reason of the only job that waits."""
    (found,) = [group.reason for group in result.groups if group.reason is not None]
    return sentences.sentence(found)


def pod(name: str, job: str, *claims: str, priority: int = 0, **spec: Any) -> Document:
    """A pod of ours that asks for a cpu."""
    found = manifests.pod(name, "default")
    found["metadata"] |= {"uid": name, "annotations": {GROUP: job}}
    asked = {"resources": {"requests": {"cpu": "1"}}}
    found["spec"] |= {
        "schedulerName": pictures.SCHEDULER,
        "containers": [manifests.container("main", **asked)],
        "volumes": made.using(*claims),
        "priority": priority,
        **spec,
    }
    return found


def group(name: str, minimum: int, phase: str = "Inqueue") -> Document:
    """A PodGroup."""
    found = manifests.group("default", name, minimum)
    return {**found, "status": {"phase": phase}}


def of_csi(*numbers: int) -> list[Document]:
    """Claims `c1`, …, bound to volumes of a CSI driver."""
    return [
        each
        for number in numbers
        for each in made.bound(
            made.claim(f"c{number}", ""),
            made.volume(f"pv{number}", "", source=made.csi(f"h{number}")),
        )
    ]


def once(name: str) -> list[Document]:
    """A claim, bound to a volume, that only one pod at a time may use."""
    modes = ["ReadWriteOncePod"]
    volume = made.volume(f"pv-{name}", "", modes=modes, source=made.csi(name))
    return list(made.bound(made.claim(name, "", modes=modes), volume))


def cluster(
    documents: Sequence[Document], actions: str = "allocate", predicates: str = "predicates"
) -> Cluster:
    """Two nodes beside these objects."""
    zones = {"n1": "a", "n2": "b"}
    nodes = [manifests.node(name, {made.ZONE: zone}, cpu="8") for name, zone in zones.items()]
    return Cluster([*nodes, *documents], actions, predicates)


def limited(n1: int, n2: int) -> list[Document]:
    """How many volumes the two nodes can attach."""
    return [
        made.csi_node("n1", {"made.example.com": n1}),
        made.csi_node("n2", {"made.example.com": n2}),
    ]


def test_a_missing_claim_keeps_its_job_out_until_it_is_there() -> None:
    """What was known of the job doesn't outlive the change of its claim."""
    found = cluster([group("j", 1, "Pending"), pod("p", "j", "c1")], "enqueue, allocate")
    for _ in range(3):
        result = found.cycle()
        assert binds(result) == {}
        assert result.groups[0].phase == "Pending"
        assert why(result) == (
            'persistentvolumeclaim "c1" not found: create it in the namespace of the pod, or '
            "correct spec.volumes"
        )
        assert result.excluded == ()  # nothing is wrong with the nodes
    terms = made.on_labels(made.ZONE, "b")
    for document in made.bound(made.claim("c1", ""), made.volume("v", "", terms=terms)):
        found.show(document)
    assert binds(found.cycle()) == {"p": "n2"}


def test_members_of_a_gang_count_for_attach_limits() -> None:
    """Those that were placed before in the same cycle."""
    limits = limited(1, 2)
    members = [pod(f"p{at}", "j", f"c{at}") for at in (1, 2, 3)]
    result = cluster([*limits, *of_csi(1, 2, 3), group("j", 3), *members]).cycle()
    assert sorted(binds(result).values()) == ["n1", "n2", "n2"]
    more = [*limits, *of_csi(1, 2, 3, 4), group("j", 4), *members, pod("p4", "j", "c4")]
    result = cluster(more).cycle()
    assert binds(result) == {}
    assert "2 node(s) exceed max volume count" in why(result)


def test_volumes_go_where_their_driver_is() -> None:
    """If the driver says that it is needed there; a node without a CSINode has none."""
    needed = made.csi_driver(preventPodSchedulingIfMissing=True)
    nodes = [made.csi_node("n1", {"other.example.com": 1})]
    objects = [needed, *of_csi(1, 2), group("j", 1), pod("p1", "j", "c1")]
    result = cluster([*nodes, *objects]).cycle()
    assert binds(result) == {}
    assert "2 node(s) without CSI driver made.example.com" in why(result)
    found = cluster([*nodes, *objects])
    assert binds(found.cycle()) == {}
    found.show(made.csi_node("n2", {"made.example.com": None}))
    assert binds(found.cycle()) == {"p1": "n2"}
    without = made.csi_driver(preventPodSchedulingIfMissing=False)
    assert len(binds(cluster([*nodes, without, *objects[1:]]).cycle())) == 1


def test_a_shared_volume_is_attached_once() -> None:
    """However many pods use it."""
    limits = limited(1, 1)
    members = [pod(f"p{at}", "j", "c1") for at in range(5)]
    result = cluster([*limits, *of_csi(1), group("j", 5), *members]).cycle()
    assert len(binds(result)) == 5


@pytest.mark.parametrize(
    "documents",
    [
        [*limited(1, 0), *of_csi(1, 2), pod("new", "b", "c2")],
        [*once("c1"), *limited(1, 1), pod("new", "b", "c1")],
    ],
    ids=["attach limit", "a claim for one pod at a time"],
)
def test_volumes_of_a_pod_that_never_goes_are_taken(documents: list[Document]) -> None:
    """Five minutes after its grace period it counts as one that stays, until it is gone; a shorter
    time on the clock makes it one that leaves again.
    """
    old = pod("old", "a", "c1", nodeName="n1")
    old["status"] = {"phase": "Running"}
    found = cluster([*documents, group("a", 1, "Running"), group("b", 1), old])
    ends = found.now
    gone = {**old, "metadata": {**old["metadata"], "deletionTimestamp": statuses.timestamp(ends)}}
    found.show(gone)
    for at, places in ((299, ["new"]), (300, []), (299, ["new"]), (900, [])):
        result = found.cycle(ends + at - found.now)
        assert not result.binds
        assert [each.task.name for each in result.pipelined] == places
        assert result.wake_at == (ends + 300 if places else None)
    found.remove(gone)
    assert "new" in binds(found.cycle())


def test_an_eviction_frees_a_place_for_a_volume() -> None:
    """The victim's volume counts until the pod is gone; the preemptor waits there for it."""
    limits = limited(1, 0)
    low = pod("low", "a", "c1", nodeName="n1")
    low["status"] = {"phase": "Running"}
    important = group("b", 1)
    important["spec"]["priorityClassName"] = "priority-10"
    jobs = [group("a", 1, "Running"), low, important, pod("high", "b", "c2", priority=10)]
    found = cluster([*limits, *of_csi(1, 2), *jobs, priority(10)], "allocate, preempt")
    result = found.cycle()
    assert [evict.task.name for evict in result.evicts] == ["low"]
    assert [(each.task.name, each.node) for each in result.pipelined] == [("high", "n1")]


def priority(value: int) -> Document:
    """A PriorityClass."""
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": f"priority-{value}"},
        "value": value,
    }


def test_one_pod_alone_may_use_a_claim() -> None:
    """Of several jobs that want it, one starts."""
    objects = made.bound(
        made.claim("c1", "", modes=["ReadWriteOncePod"]),
        made.volume("v", "", modes=["ReadWriteOncePod"]),
    )
    jobs = [each for name in "ab" for each in (group(name, 1), pod(name, name, "c1"))]
    result = cluster([*objects, *jobs]).cycle()
    assert len(binds(result)) == 1
    assert "2 node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod" in why(result)


@pytest.mark.parametrize(
    ("argument", "objects"),
    [
        ("VolumeBindingEnable", []),
        ("VolumeBindingEnable", made.bound(made.claim("c1", ""), made.volume("v", "", terms=[]))),
        (
            "VolumeZoneEnable",
            made.bound(made.claim("c1", ""), made.volume("v", "", labels={made.ZONE: "z"})),
        ),
        (
            "NodeVolumeLimitsEnable",
            [*of_csi(1), *limited(0, 0)],
        ),
    ],
)
def test_each_filter_can_be_switched_off(argument: str, objects: Sequence[Document]) -> None:
    """By Volcano's arguments; on, it keeps the pod from both nodes."""
    documents = [*objects, group("j", 1), pod("p", "j", "c1")]
    assert binds(cluster(documents).cycle()) == {}
    off = f"predicates:predicate.{argument}=false"
    assert binds(cluster(documents, predicates=off).cycle()) == {"p": "n1"}


def test_storage_that_isnt_served_is_no_obstacle() -> None:
    """Pods go where they went without."""
    found = cluster([group("j", 1), pod("p", "j", "c1")])
    found._mirror.storage.serve(served=False)
    assert binds(found.cycle()) == {"p": "n1"}
