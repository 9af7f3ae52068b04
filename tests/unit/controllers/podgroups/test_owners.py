import msgspec
import pytest

from vscheduler.controllers.podgroups import auto_groups, owners
from vscheduler.controllers.podgroups.auto_groups import OwnerRef
from vscheduler.controllers.podgroups.deletion import OwnerState
from vscheduler.controllers.podgroups.owners import Changed, Codec, Listed, OwnerKind, Owners
from vscheduler.mirror.translate import pod_owners

STATES = OwnerState


def item(uid: str, replicas: int | None = None, **spec: int) -> bytes:
    """An owner as a list holds it: without apiVersion and kind."""
    metadata = {
        "name": uid,
        "namespace": "ns",
        "uid": uid,
        "annotations": {"volcano.sh/x": "1", "kubectl.kubernetes.io/last-applied": "long"},
    }
    given = {} if replicas is None else {"replicas": replicas}
    return msgspec.json.encode({"metadata": metadata, "spec": given | spec, "status": {}})


def ref(uid: str, kind: str = "ReplicaSet", api_version: str = "apps/v1") -> pod_owners.Owner:
    """An owner reference."""
    return pod_owners.Owner(api_version=api_version, kind=kind, name=uid, uid=uid)


def test_an_owner_is_kept_in_a_few_words() -> None:
    """How many pods it wants, and the annotations that count for a group."""
    (event,) = Codec(OwnerKind.REPLICA_SET).change("ADDED", item("a", 3))
    assert isinstance(event, Changed)
    assert event.seen.namespace == "ns"
    assert event.seen.owner == auto_groups.Owner(
        ref=OwnerRef(api_version="apps/v1", kind="ReplicaSet", name="a", uid="a"),
        labels={},
        annotations={"volcano.sh/x": "1"},
        replicas=3,
    )


def test_only_what_changes_for_groups_is_a_change() -> None:
    """A ReplicaSet's status changes with each of its pods."""
    codec, known = Codec(OwnerKind.REPLICA_SET), Owners()
    (listed,) = codec.replace(codec.read([item("a", 1), item("b", 1)]))
    assert [seen.owner.ref.uid for seen in known.apply(listed)] == ["a", "b"]
    for replicas, expected in ((1, []), (2, ["a"]), (2, [])):
        (event,) = codec.change("MODIFIED", item("a", replicas))
        assert [seen.owner.ref.uid for seen in known.apply(event)] == expected
    (listed,) = codec.replace(codec.read([item("a", 2), item("c", 1)]))
    assert [seen.owner.ref.uid for seen in known.apply(listed)] == ["c"]
    assert known.get("b") is None


def test_a_job_changes_when_its_last_pods_are_fewer_than_run_at_once() -> None:
    """Then a gang of it has fewer pods."""
    codec, known = Codec(OwnerKind.JOB), Owners()
    known.apply(Listed(OwnerKind.JOB, ()))
    for succeeded, expected in ((0, [2]), (1, []), (2, [1]), (3, [])):
        body = msgspec.json.decode(item("j", parallelism=2, completions=3))
        body["status"] = {"succeeded": succeeded}
        (event,) = codec.change("MODIFIED", msgspec.json.encode(body))
        assert [seen.owner.replicas for seen in known.apply(event)] == expected


def test_what_seems_to_have_become_of_an_owner() -> None:
    """As far as its kind is watched; of a Job it is its parallelism that counts."""
    known = Owners()
    assert known.state(ref("a")) is STATES.UNKNOWN
    sets, jobs = Codec(OwnerKind.REPLICA_SET), Codec(OwnerKind.JOB)
    for event in (
        *sets.replace(sets.read([item("a", 1), item("z", 0)])),
        *jobs.replace(
            jobs.read([item("j", parallelism=2, completions=2), item("k", parallelism=0)])
        ),
    ):
        known.apply(event)
    assert known.state(ref("a")) is STATES.ALIVE
    assert known.state(ref("z")) is STATES.SCALED_TO_ZERO
    assert known.state(ref("b")) is STATES.GONE
    assert known.state(ref("j", "Job", "batch/v1")) is STATES.ALIVE
    assert known.state(ref("k", "Job", "batch/v1")) is STATES.SCALED_TO_ZERO
    assert known.state(ref("j", "Job", "batch.volcano.sh/v1alpha1")) is STATES.UNKNOWN
    assert known.state(ref("s", "StatefulSet")) is STATES.UNKNOWN
    assert known.state(ref("s", "SparkApplication", "x/v1")) is STATES.UNKNOWN
    (event,) = sets.change("DELETED", item("a", 1))
    assert known.apply(event) == ()
    assert known.state(ref("a")) is STATES.GONE


@pytest.mark.parametrize(
    ("kind", "api_version", "path"),
    [
        ("Pod", "v1", "/api/v1/namespaces/ns/pods/x"),
        ("ReplicaSet", "apps/v1", "/apis/apps/v1/namespaces/ns/replicasets/x"),
        ("Job", "batch/v1", "/apis/batch/v1/namespaces/ns/jobs/x"),
        ("Job", "batch.volcano.sh/v1alpha1", None),
    ],
)
def test_owners_of_known_kinds_can_be_read(kind: str, api_version: str, path: str | None) -> None:
    """Two groups have a kind Job."""
    named = OwnerRef(api_version=api_version, kind=kind, name="x", uid="1")
    assert owners.path_of(named, "ns") == path
    assert owners.WATCHED[OwnerKind.STATEFUL_SET] == "/apis/apps/v1/statefulsets"
