"""Jobs of Kubernetes' own PodGroups (scheduling.k8s.io) on the page."""

import asyncio
import time
from typing import Any

import pytest
from msgspec.structs import replace

from tests.scenarios import test_native_pod_groups as native
from tests.scenarios.test_group_trees import group as below
from tests.scenarios.test_group_trees import root
from tests.scenarios.test_native_pod_groups import group, node, pods, queue
from tests.unit.web.test_cluster_view import view_of
from tests.web import stage
from tests.web.stage import Reviewer, Stage
from vscheduler.mirror import paths
from vscheduler.mirror.paths import Collection
from vscheduler.model.jobs_by_id import NO_JOBS
from vscheduler.web import documents, streams
from vscheduler.web.access import AccessTable, Populated, User
from vscheduler.web.cluster_view import ViewMaker
from vscheduler.web.documents import Access, Query

NOW = time.time()
SINCE = "2026-01-01T11:30:00Z"
NAME = "train@scheduling.k8s.io"
WAITS = [
    {
        "type": kind,
        "status": status,
        "reason": "Unschedulable",
        "message": "needs more",
        "lastTransitionTime": SINCE,
    }
    for kind, status in (
        ("PodGroupInitiallyScheduled", "False"),
        ("vscheduler.io/Unschedulable", "True"),
    )
]


def made(number: int = 3, **more: Any) -> Stage:
    """A PodGroup `train` of each kind; Kubernetes' own needs three pods."""
    theirs = {
        "apiVersion": native.queue("q")["apiVersion"],
        "kind": "PodGroup",
        "metadata": {"name": "train", "namespace": "default", "uid": "v"},
        "spec": {"minMember": 1, "queue": "q"},
    }
    mine = group("train", 3, queue="q", **more)
    mine["metadata"]["uid"] = "n"
    for each in (mine, theirs):
        each["metadata"]["creationTimestamp"] = SINCE
    members = pods("train", number)
    for each in (mine, *members):
        each["metadata"]["namespace"] = "default"
        each["metadata"].setdefault("uid", each["metadata"]["name"])
    return Stage([node("n1"), queue("q"), theirs, mine, *members], NOW)


def test_both_kinds_are_rows_with_details() -> None:
    """Of one name, each with its own numbers."""
    view = view_of(made())
    found = documents.jobs_of(view, stage.everything(), Query(state="all"))["jobs"]
    by_name = {each["podGroup"]: each for each in found}
    assert set(by_name) == {"train", NAME}
    assert by_name[NAME]["pods"] == {"running": 0, "minimum": 3, "total": 3}
    assert by_name[NAME]["queue"] == "q"
    assert "at most 2 of 3 pods" in by_name[NAME]["message"]
    details = documents.job(view, stage.everything(), "default", NAME)
    assert details is not None
    assert [each["name"] for each in details["members"]] == ["train-0", "train-1", "train-2"]
    other = documents.job(view, stage.everything(), "default", "train")
    assert other is not None
    assert other["members"] == []


def test_without_a_turn_its_conditions_say_why() -> None:
    """A cycle that ran out of budget says nothing of it."""
    stored = made(status={"conditions": WAITS})
    maker = ViewMaker(stage.places, stage.domains)
    stored.past.cycle(stored.taken, replace(stored.result, changeable=(), others=NO_JOBS))
    view = maker.make(asyncio.run(stored.look()))
    (row,) = (row for row in view.job_rows if row.name == NAME)
    assert row.message == "needs more"
    assert row.since == 1767267000.0


@pytest.mark.parametrize("number", [0, 2])
def test_a_tree_is_one_row(number: int) -> None:
    """With the pods of all of its PodGroups, if it has any."""
    scheduled = {**WAITS[0], "type": "CompositePodGroupInitiallyScheduled"}
    tree = [root("all", 2, queue="q", status={"conditions": [scheduled, WAITS[1]]})]
    tree += [below("a", 1, "all"), below("b", 2, "all")]
    members = [*pods("a", min(1, number)), *pods("b", number)]
    for each in (*tree, *members):
        each["metadata"] |= {"namespace": "default", "creationTimestamp": "2026-01-01T10:00:00Z"}
        each["metadata"]["uid"] = each["metadata"]["name"]
    (row,) = view_of(Stage([node("n1"), queue("q"), *tree, *members], NOW)).job_rows
    assert (row.name, row.workload) == ("all@composite.scheduling.k8s.io", "compositepodgroup/all")
    assert (row.minimum, row.total, row.since) == (3, len(members), 1767267000.0)


@pytest.mark.parametrize(
    ("conditions", "shown"),
    [([], True), ([{"type": "PodGroupInitiallyScheduled", "status": "True"}], False)],
)
def test_groups_without_pods(conditions: list[dict[str, str]], shown: bool) -> None:
    """One that kube-scheduler has started isn't ours; of others, the pods name the scheduler."""
    view = view_of(made(0, status={"conditions": conditions}))
    rows = [row for row in view.job_rows if row.name == NAME]
    assert bool(rows) is shown
    for row in rows:
        assert row.workload == f"podgroup/{NAME}"
        assert "spec.schedulingPolicy.gang.minCount 3" in row.message
        assert "create them, with the scheduler in spec.schedulerName" in row.message


@pytest.mark.parametrize(
    ("access", "names"),
    [
        (Access(name="v", groups_in=frozenset({"default"})), ["train"]),
        (Access(name="n", native_in=frozenset({"default"})), [NAME]),
        (Access(name="n", native_in=None), [NAME]),
        (Access(name="o", groups_in=frozenset({"o"}), native_in=frozenset({"o"})), []),
    ],
)
def test_each_kind_is_shown_to_those_who_may_list_it(access: Access, names: list[str]) -> None:
    """In lists, details and versions alike."""
    view = view_of(made())
    found = documents.jobs_of(view, access, Query(state="all"))["jobs"]
    assert [each["podGroup"] for each in found] == names
    for name in ("train", NAME):
        assert (documents.job(view, access, "default", name) is None) is (name not in names)
        assert (documents.waiting(view, access, "default", name) is None) is (name not in names)
    assert documents.summary(view, access)["jobs"]["waiting"] == len(names)
    seen: Any = streams.VisitorVersions()._seen(view, access, 0)
    assert [row.name for row in seen["jobs"]] == names


class Rights(Reviewer):
    """Says yes to these kinds in these namespaces, and keeps the questions."""

    def __init__(self, *allowed: tuple[Collection, str]) -> None:
        super().__init__()
        self.allowed = allowed
        self.asked: list[tuple[Collection, str]] = []

    async def may_list(self, user: User, kind: Collection, namespace: str = "") -> bool:
        """Whether it is among them."""
        del user
        self.asked.append((kind, namespace))
        return (kind, namespace) in self.allowed


@pytest.mark.parametrize(
    ("allowed", "expected"),
    [
        ((paths.NATIVE_POD_GROUPS, ""), (frozenset(), None)),
        ((paths.NATIVE_POD_GROUPS, "robotics"), (frozenset(), frozenset({"robotics"}))),
        ((paths.POD_GROUPS, "robotics"), (frozenset({"robotics"}), frozenset())),
    ],
)
async def test_both_kinds_are_asked_about(
    allowed: tuple[Collection, str], expected: tuple[object, object]
) -> None:
    """Kubernetes' own only where there are some."""
    reviewer = Rights(allowed)

    async def namespaces() -> Populated:
        return Populated(all={"robotics", "speech"}, native={"robotics"})

    found = await AccessTable(reviewer, namespaces).of(stage.TENANT)
    assert (found.groups_in, found.native_in) == expected
    assert (paths.NATIVE_POD_GROUPS, "speech") not in reviewer.asked
