import datetime as dt

import pytest

from vscheduler.mirror.decode import wire
from vscheduler.simulator import owners

NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)


def pod(name: str, *, kind: str = "ReplicaSet", age: int = 0, **status: str) -> wire.Pod:
    """A pod of an owner of that kind, none where it is empty; age in seconds before noon."""
    version = "batch.volcano.sh/v1alpha1" if kind == "vcjob" else "apps/v1"
    owner = wire.OwnerReference(
        api_version=version,
        kind=kind.replace("vcjob", "Job"),
        name="o",
        uid="owner",
        controller=True,
    )
    metadata = wire.Metadata(
        name=name,
        namespace="lab",
        uid=name,
        resource_version="7",
        labels={"app": "a"},
        creation_timestamp=NOON - dt.timedelta(seconds=age),
        owner_references=[owner] if kind else [],
    )
    spec = wire.PodSpec(node_name="n1", scheduler_name="vscheduler")
    return wire.Pod(
        metadata=metadata,
        spec=spec,
        status=wire.PodStatus(phase=status.get("phase", "Running"), nominated_node_name="n1"),
    )


def test_what_takes_a_pods_place_knows_nothing_of_its_node() -> None:
    """A new UID, made now, nothing of the status; labels, owner and the rest of the spec stay."""
    old = pod("a")
    made = owners.Owners([old]).again(old, NOON.timestamp(), set())
    assert (made.metadata.name, made.metadata.uid) == ("a-r1", "lab/a-r1")
    assert made.metadata.creation_timestamp == NOON
    assert made.metadata.resource_version == ""
    assert (made.metadata.labels, made.metadata.owner_references) == (
        old.metadata.labels,
        old.metadata.owner_references,
    )
    assert (made.spec.node_name, made.spec.scheduler_name) == ("", "vscheduler")
    assert made.status == wire.PodStatus(phase="Pending")


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("ReplicaSet", ["a-r1", "a-r2"]),
        ("Job", ["a-r1", "a-r2"]),
        ("", ["a-r1", "a-r2"]),
        ("StatefulSet", ["a", "a"]),
        ("vcjob", ["a", "a"]),
    ],
)
def test_names_are_counted_on_from_the_first(kind: str, names: list[str]) -> None:
    """Those of a StatefulSet and of Volcano's Job stay; UIDs never do."""
    first = pod("a", kind=kind)
    known = owners.Owners([first])
    second = known.again(first, 0.0, set())
    third = known.again(second, 0.0, set())
    assert [second.metadata.name, third.metadata.name] == names
    assert (second.metadata.uid, third.metadata.uid) == ("lab/a-r1", "lab/a-r2")


def test_a_name_that_is_taken_is_passed_over() -> None:
    """The other pod is somebody else."""
    known = owners.Owners([pod("a")])
    assert known.again(pod("a"), 0.0, {"lab/a-r1", "lab/a-r2"}).metadata.name == "a-r3"


def wanted(lost: wire.Pod, *others: wire.Pod) -> bool:
    """Whether somebody makes another for the first of these pods."""
    return owners.Owners([lost, *others]).wants_again(lost)


def test_nobody_makes_another_for_what_is_done_or_replaced() -> None:
    """A failed pod is replaced once, by its owner, and only if that hasn't happened yet."""
    failed = pod("a", age=60, phase="Failed")
    assert wanted(pod("a"))
    assert wanted(failed)
    assert not wanted(pod("a", phase="Succeeded"))
    assert not wanted(pod("a", kind="", phase="Failed"))
    assert wanted(pod("a", kind=""))
    assert not wanted(failed, pod("b", age=30))
    assert wanted(failed, pod("b", age=90))
    assert wanted(failed, pod("b", age=30, kind="Job"))
    assert wanted(failed, pod("b", age=30, phase="Failed"))
    assert wanted(failed, pod("b", age=30, phase="Succeeded"))
