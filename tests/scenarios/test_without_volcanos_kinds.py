"""A cluster whose API server serves none of Volcano's kinds: no Queues, no PodGroups of theirs."""

import pytest

from tests.scenarios.alone import (
    NONE,
    NOW,
    QUEUE,
    a_group,
    a_mirror,
    a_node,
    a_pod,
    a_queue,
    binds,
    decide,
    jobs_of,
    show,
    unserve,
    used,
    words,
)
from vscheduler.mirror.decode import events
from vscheduler.model import jobs
from vscheduler.model.jobs import JobId, TaskId


def test_without_queues_everything_is_in_the_default_queue() -> None:
    """Which has no limits, whatever PodGroups name; with Queues, it is as they name it again."""
    pods = [*(a_pod(f"g-{number}", "g") for number in range(2)), a_pod("h-0", "h", on="n1")]
    mirror = a_mirror(a_node("n1", 8), a_group("g", 2, "lab"), a_group("h", 1, "office"), *pods)
    assert binds(mirror) == []
    mirror.serve_queues(served=False)
    assert mirror.has_queue("default")
    assert binds(mirror) == ["g-0", "g-1"]
    assert {status.queue for status in decide(mirror).groups} == {"default"}
    assert used(mirror) == {"default": 2000}
    show(mirror, a_queue("lab", capability={"cpu": 1}), a_queue("office"))
    assert binds(mirror) == ["g-0", "g-1"]
    mirror.serve_queues(served=True)
    assert not mirror.has_queue("default")
    assert used(mirror) == {"office": 2000}
    assert binds(mirror) == []


def test_without_podgroups_of_volcano_plain_pods_start_alone() -> None:
    """One fits beside one that runs; both count for the queue that they name, or the default."""
    pods = a_pod("runs", on="n1", **{QUEUE: "lab"}), a_pod("fits"), a_pod("waits")
    mirror = a_mirror(a_node("n1"), a_queue("default"), a_queue("lab"), *pods)
    assert binds(mirror) == []
    mirror.serve_pod_groups(served=False)
    assert binds(mirror) == ["fits"]
    assert used(mirror) == {"lab": 2000}
    assert "cpu" in words(mirror)["waits"]
    assert mirror.assume(TaskId("fits"), "n1", NOW)
    assert used(mirror) == {"default": 2000, "lab": 2000}
    assert binds(mirror) == []
    assert [*mirror.ungrouped()] == []


def test_lone_pods_are_nothing_special_once_podgroups_are_served() -> None:
    """The controllers make PodGroups for all of them then, those on nodes included."""
    mirror = a_mirror(a_node("n1"), a_pod("runs", on="n1"), a_pod("waits"))
    unserve(mirror)
    assert binds(mirror) == ["waits"]
    mirror.serve_pod_groups(served=True)
    assert binds(mirror) == []
    assert {pod.key for pod in mirror.ungrouped()} == {"default/runs", "default/waits"}
    assert used(mirror) == {}
    assert not mirror.groups


def test_pods_whose_automatic_podgroup_is_gone_with_its_kind_start_alone() -> None:
    """Deployments go on; what was made for them by hand can't."""
    automatic = "podgroup-0e3c1fd5-0000-4000-8000-000000000000"
    name = {"scheduling.k8s.io/group-name": automatic}
    pod = a_pod("web", **name)
    pod["metadata"]["uid"] = automatic.removeprefix("podgroup-")
    mirror = a_mirror(a_node("n1"), pod)
    assert binds(mirror) == []
    unserve(mirror)
    assert binds(mirror) == ["web"]


def test_a_lone_pod_ends_with_its_pod() -> None:
    """Nothing is left of it."""
    mirror = a_mirror(a_node("n1"), a_pod("web"))
    unserve(mirror)
    assert set(mirror.groups) == {"default/web@pod"}
    kind = events.Kind.POD
    mirror.apply(events.Remove(kind=kind, namespace="default", name="web", uid="web"))
    assert not mirror.groups
    assert decide(mirror).groups == ()


@pytest.mark.parametrize(
    ("annotations", "told"),
    [
        ({"scheduling.k8s.io/group-name": "train"}, f"there is no PodGroup default/train: {NONE}"),
        (
            {"scheduling.volcano.sh/group-min-member": "3"},
            f"annotation scheduling.volcano.sh/group-min-member needs a PodGroup, but {NONE}",
        ),
    ],
)
def test_pods_that_need_a_podgroup_are_told_that_there_are_none(
    annotations: dict[str, str], told: str
) -> None:
    """They wait until the kind is served."""
    mirror = a_mirror(a_node("n1"), a_pod("w", **annotations))
    assert words(mirror) == {}
    unserve(mirror)
    assert binds(mirror) == []
    assert told in words(mirror)["w"]
    mirror.serve_pod_groups(served=True)
    assert words(mirror) == {}


def test_a_namespace_may_name_the_queue_of_lone_pods_or_require_one() -> None:
    """Also later."""
    head = {"apiVersion": "v1", "kind": "Namespace"}
    mirror = a_mirror(a_node("n1"), a_queue("lab"), a_pod("w", on="n1"), a_pod("v"))
    mirror.serve_pod_groups(served=False)
    assert used(mirror) == {"default": 2000}
    show(mirror, {**head, "metadata": {"name": "default", "annotations": {QUEUE: "lab"}}})
    assert used(mirror) == {"lab": 2000}
    assert binds(mirror) == ["v"]
    requires = {"vscheduler.io/require-queue": "true"}
    show(mirror, {**head, "metadata": {"name": "default", "annotations": requires}})
    assert binds(mirror) == []
    assert f"so name a queue in annotation {QUEUE} of the pod" in words(mirror)["v"]


def test_what_is_known_is_the_same_in_any_order() -> None:
    """Pods that come after the kind is gone are like those before."""
    documents = a_node("n1", 8), a_pod("a"), a_pod("b", on="n1"), a_group("g", 1, "lab")
    early = a_mirror(*documents, a_pod("g-0", "g"))
    unserve(early)
    late = a_mirror()
    unserve(late)
    show(late, a_pod("g-0", "g"), *reversed(documents))
    for seen in (jobs_of, used, binds):
        assert seen(early) == seen(late)


def test_ids_of_lone_pods_are_no_name_that_anybody_can_give() -> None:
    """A pod that names one in an annotation names nothing."""
    name = {"scheduling.k8s.io/group-name": "victim@pod"}
    mirror = a_mirror(a_node("n1"), a_pod("victim"), a_pod("other", **name))
    unserve(mirror)
    assert len(mirror.members(JobId("default/victim@pod"))) == 1
    assert jobs.names_of(jobs.pod_id("default", "victim")) == ("default", "victim")
