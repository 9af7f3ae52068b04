"""Gangs that need only some of their pods start with those that the queue may have together."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests import running
from tests.scenarios.deciding import bind, decide
from vscheduler.core import plugins
from vscheduler.core.api.contracts import Plugin
from vscheduler.mirror.wording import sentences
from vscheduler.model.decisions import CycleResult, Reason, ReasonCode
from vscheduler.model.jobs import Task
from vscheduler.model.queues import Queue
from vscheduler.testing import pictures
from vscheduler.testing.pictures import Document

SHARES = "priority gang | predicates proportion nodeorder binpack"
AMOUNTS = "priority gang | predicates capacity:enableHierarchy=true nodeorder binpack"
TREE: dict[str, Any] = {"actions": "allocate", "tiers": running.tiers(SHARES)}


def reason(result: CycleResult) -> Reason:
    """Why the only job waits."""
    (status,) = result.groups
    assert status.reason is not None
    return status.reason


CHOICES: Mapping[str, tuple[str, str, str]] = {
    "a capability": (
        SHARES,
        "node n1 cpu=9 queue q capability=cpu:4 job q/g min=3 -@3 -@2 -@1 -@1",
        "- n1 n1 n1",
    ),
    "what another queue deserves": (
        SHARES,
        """
        node n1 cpu=8 queue p job p/h min=1 -*8
        queue q job q/g min=3 -@3 -@2 -@1 -@1
        """,
        "- n1 n1 n1",
    ),
    "an ancestor's capability": (
        AMOUNTS,
        """
        node n1 cpu=9 queue p capability=cpu:4 queue q parent=p
        job q/g min=3 -@3 -@2 -@1 -@1
        """,
        "- n1 n1 n1",
    ),
    "a guarantee of another queue": (
        AMOUNTS,
        """
        node n1 cpu=9 queue p guarantee=cpu:5 deserved=cpu:5 queue q
        job q/g min=3 -@3 -@2 -@1 -@1
        """,
        "- n1 n1 n1",
    ),
}


@pytest.mark.parametrize(("tiers", "picture", "places"), CHOICES.values(), ids=CHOICES)
def test_the_queue_decides_which_pods_start(tiers: str, picture: str, places: str) -> None:
    """Taken in their order, the first pod would use up what the others need."""
    wanted = enumerate(places.split())
    expected = [bind(f"g-{number}", node) for number, node in wanted if node != "-"]
    found = [each for each in decide(picture, "allocate", tiers) if each.pod.startswith("g-")]
    assert found == expected


def test_a_gang_that_the_queue_cannot_take_is_not_searched_for_again() -> None:
    """Its reason has figures of all pods it needs, and holds while nothing changes."""
    picture = "node n1 cpu=9 queue q capability=cpu:4 job q/g min=3 -@3 -@2 -@2 -@1"
    first = running.run(pictures.documents(picture), TREE)
    assert first.binds == ()
    assert reason(first).code is ReasonCode.QUEUE_OVER_SHARE
    assert sentences.sentence(reason(first)) == (
        "queue q has 0 cpu of the 4 it may have; the smallest pods that this gang can start with "
        "need 5 cpu"
    )
    again = running.run(pictures.documents(picture), TREE, carried=first.carried)
    assert "searches" not in again.work
    assert reason(again) == reason(first)
    more = pictures.documents(picture.replace("cpu:4", "cpu:5"))
    assert len(running.run(more, TREE, carried=again.carried).binds) == 3


def asking(picture: str, requests: Mapping[str, Mapping[str, str]]) -> list[Document]:
    """The manifests of a picture, with other requests for these pods."""
    documents = pictures.documents(picture)
    for document in documents:
        if document["metadata"]["name"] in requests:
            asked = dict(requests[document["metadata"]["name"]])
            document["spec"]["containers"][0]["resources"] = {"requests": asked, "limits": asked}
    return documents


CPUS = {"cpu": "2", "nvidia.com/gpu": "1"}
GPUS = {"cpu": "1", "nvidia.com/gpu": "3"}


def test_the_queue_may_lack_one_thing_for_some_pods_and_another_for_others() -> None:
    """Then no single limit is in the way, unless one is a little lower."""
    picture = """
        node n1 cpu=9 gpu=9 queue q capability=cpu:3,gpu:3
        job q/g min=2 -*4
        """
    requests = {"g-0": CPUS, "g-1": CPUS, "g-2": GPUS, "g-3": GPUS}
    result = running.run(asking(picture, requests), TREE)
    assert sentences.sentence(reason(result)) == (
        "queue q may not have enough pods of this gang at once"
    )
    less = running.run(asking(picture.replace("gpu:3", "gpu:1"), requests), TREE)
    assert "queue q has 0 nvidia.com/gpu of the 1 it may have" in sentences.sentence(reason(less))
    more = running.run(asking(picture.replace("gpu:3", "gpu:4"), requests), TREE)
    assert [bind.task.name for bind in more.binds] == ["g-0", "g-2"]


def test_queue_and_nodes_may_be_in_the_way_together() -> None:
    """The queue may have the small pods, and nodes have room for the large ones."""
    picture = """
        node n1 cpu=4 label=a=b node n2 cpu=1
        queue q capability=cpu:4 job q/g min=3 -@2 -@2 -@1 -@1
        """
    small = pictures.documents(picture)
    for each in small:
        if each["metadata"]["name"] in ("g-2", "g-3"):
            each["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "n2"}
    result = running.run(small, TREE)
    assert reason(result).code is ReasonCode.NO_ROOM
    assert "no choice of pods that the queue may have finds room at once" in sentences.sentence(
        reason(result)
    )


def test_limits_in_groups_of_nodes() -> None:
    """The group with more room is nearly used up; taken in their order, pods would miss it."""
    picture = """
        node n1 cpu=9 label=volcano.sh/nodegroup-name=a
        node n2 cpu=4 label=volcano.sh/nodegroup-name=b
        queue q affinity=required:a,b
        job q/g min=3 -@3 -@2 -@2
        """
    tiers = running.tiers("priority gang | predicates nodegroup nodeorder")
    bound = {}
    for cores in (5, 4, 3, 2):
        documents = pictures.documents(picture)
        limits = f'{{"a": {{"cpu": "{cores}"}}, "b": {{"cpu": "3"}}}}'
        for document in documents:
            if document["kind"] == "Queue":
                key = "volcano.sh/nodegroup-resource-limits"
                document["metadata"].setdefault("annotations", {})[key] = limits
        result = running.run(documents, {"actions": "allocate", "tiers": tiers})
        bound[cores] = [bind.node for bind in result.binds]
    assert bound == {5: ["n1", "n2", "n1"], 4: ["n2", "n1", "n1"], 3: [], 2: []}


class NoSecond(Plugin):
    """Refuses a pod without saying which limit is in the way."""

    name = "no-second"

    def allocatable(self, queue: Queue, task: Task) -> bool:
        """Whether it is another pod."""
        del queue
        return not task.key.endswith("-1")


def test_what_a_plugin_refuses_is_not_searched_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plugin that only says no is asked again about the same places."""
    picture = "node n1 cpu=4 node n2 cpu=3 queue q job q/g min=3 -@3 -@2 -@2 -@2"
    monkeypatch.setattr(plugins, "PLUGINS", (*plugins.PLUGINS, NoSecond))
    tiers = running.tiers("priority gang | predicates no-second nodeorder")
    tree = {"actions": "allocate", "tiers": tiers}
    first = running.run(pictures.documents(picture), tree)
    assert first.binds == ()
    assert first.work["searches"]
    again = running.run(pictures.documents(picture), tree, carried=first.carried)
    assert again.binds == ()
    assert "searches" not in again.work
