"""Plugins that read annotations and labels of pods: what is declared is part of the pod class."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
import pytest

from tests import running
from vscheduler.core import actions, compat, cycle, plugins
from vscheduler.core.api.contracts import FilterResult, NodeView, Plugin, Session
from vscheduler.core.api.depends import On, depends_on
from vscheduler.core.api.views import JobState
from vscheduler.core.config import policy
from vscheduler.core.config.policy import Policy
from vscheduler.core.session import declared_reads
from vscheduler.mirror.decode import events
from vscheduler.mirror.state import Mirror
from vscheduler.mirror.state import Options as MirrorOptions
from vscheduler.model.decisions import CycleResult
from vscheduler.model.jobs import Job, PodClass, Task
from vscheduler.model.nodes import Mask, NodeLayout
from vscheduler.simulator import run
from vscheduler.simulator.run import Options
from vscheduler.testing import pictures
from vscheduler.testing.pictures import Document

ROOM = "example.com/room"
OWNER = "example.com/owner"
TIER = {"plugins": [{"name": "gang"}, {"name": "rooms"}, {"name": "predicates"}]}


class Rooms(Plugin):
    """Keeps a pod on the node that its annotation and its label name."""

    name = "rooms"
    reads_annotations: ClassVar[Sequence[str]] = (ROOM,)
    reads_labels: ClassVar[Sequence[str]] = ("node",)

    def open(self, session: Session) -> None:
        """Keep the names of the nodes."""
        self._names = np.array(session.snapshot.nodes.layout.names)

    def class_nodes(self, pod_class: PodClass, layout: NodeLayout) -> Mask:
        """Return the named node."""
        hints = pod_class.hints
        mask: Mask = np.array(layout.names) == (hints.get(ROOM) or hints.get("label node"))
        return mask

    def filter_nodes(self, task: Task, nodes: NodeView) -> Sequence[FilterResult]:
        """Refuse all nodes but the named one."""
        named = task.annotations.get(ROOM) or task.labels.get("node", "")
        return [FilterResult("node(s) were another room", nodes.of(self._names) == named)]


class Undeclared(Rooms):
    """The same without a declaration."""

    reads_annotations = ()


class UndeclaredLabel(Rooms):
    """The same, with only the annotation declared."""

    reads_labels = ()


class Ordering(Plugin):
    """Orders pods by an annotation that it doesn't declare."""

    name = "rooms"

    def task_key(self, task: Task) -> float:
        """Return what the pod says."""
        return float(task.annotations[ROOM])


class OfGroups(Rooms):
    """Looks for the room in the PodGroup, in some way."""

    read: ClassVar[Callable[[Job], object]]

    def open(self, session: Session) -> None:
        """Keep the jobs, too."""
        super().open(session)
        self._states = session.job_states

    def filter_nodes(self, task: Task, nodes: NodeView) -> Sequence[FilterResult]:
        """Refuse all nodes if the PodGroup has a room."""
        refused = bool(type(self).read(self._states[task.job].job))
        return [FilterResult("node(s) were closed", np.full(nodes.size, not refused))]

    def job_key(self, state: JobState) -> tuple[bool]:
        """Return what the PodGroup says: this is asked about each job."""
        return (ROOM in state.job.annotations,)


def _pod(name: str, **metadata: Any) -> dict[str, Any]:
    notes = {"scheduling.k8s.io/group-name": "train", **metadata.pop("annotations", {})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "lab", "annotations": notes, **metadata},
        "spec": {
            "schedulerName": "vscheduler",
            "containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}],
        },
    }


def _decided(plugin: type[Plugin]) -> CycleResult:
    """One cycle with three pods that are equal but for their annotations and labels."""
    tree = {"actions": "allocate", "tiers": [TIER]}
    known = (*plugins.PLUGINS, plugin)
    parsed = policy.parse(tree, known, actions.ACTIONS, compat.VOLCANO)
    assert parsed.policy is not None, parsed.problems
    nodes = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name},
            "status": {"allocatable": {"cpu": "4", "pods": "10"}},
        }
        for name in ("blue", "green", "red")
    ]
    group = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "train", "namespace": "lab"},
        "spec": {"minMember": 3},
    }
    pods = [
        _pod("a", annotations={ROOM: "red"}),
        _pod("b", annotations={ROOM: "green"}),
        _pod("c", labels={"node": "blue"}),
    ]
    return run.simulate([*nodes, group, *pods], parsed.policy, Options()).last


def test_declared_texts_are_part_of_the_pod_class() -> None:
    """Pods that differ in a declared annotation or label get answers of their own."""
    result = _decided(Rooms)
    assert {bind.task.name: bind.node for bind in result.binds} == {
        "a": "red",
        "b": "green",
        "c": "blue",
    }
    assert result.faults == ()


@pytest.mark.parametrize(
    ("plugin", "hook", "kind", "name", "attribute"),
    [
        (Undeclared, "filter_nodes", "annotation", ROOM, "reads_annotations"),
        (UndeclaredLabel, "filter_nodes", "label", "node", "reads_labels"),
        (Ordering, "task_key", "annotation", ROOM, "reads_annotations"),
    ],
)
def test_an_undeclared_read_is_a_failure_of_the_plugin(
    plugin: type[Plugin], hook: str, kind: str, name: str, attribute: str
) -> None:
    """The fault names the plugin, what it reads, and where to declare it; nothing is guessed."""
    result = _decided(plugin)
    (fault,) = result.faults
    assert (fault.plugin, fault.hook) == ("rooms", hook)
    assert fault.error == (
        f"UndeclaredReadError: {kind} {name} of pods is read, but not declared: "
        f"add it to {attribute} of the plugin"
    )
    assert len(result.binds) == (3 if hook == "task_key" else 0)


@pytest.mark.parametrize(
    ("read", "what", "attribute"),
    [
        (lambda job: job.annotations.get(ROOM), f"annotation {ROOM}", "reads_annotations"),
        (lambda job: ROOM in job.annotations, f"annotation {ROOM}", "reads_annotations"),
        (lambda job: job.annotations[ROOM], f"annotation {ROOM}", "reads_annotations"),
        (lambda job: list(job.annotations), "annotations", "reads_annotations"),
        (lambda job: dict(job.annotations), "annotations", "reads_annotations"),
        (lambda job: [*job.annotations.items()], "annotations", "reads_annotations"),
        (lambda job: [*job.annotations.values()], "annotations", "reads_annotations"),
        (lambda job: job.labels.get("node"), "label node", "reads_labels"),
    ],
)
def test_undeclared_texts_of_podgroups_are_no_part_of_a_class(
    read: Callable[[Job], object], what: str, attribute: str
) -> None:
    """A filter that reads them fails, with the names of the plugin, the hook and the text."""
    undeclared = {"reads_annotations": (), "reads_labels": ()}
    plugin = type("OfGroups", (OfGroups,), {"read": staticmethod(read), **undeclared})
    (fault,) = _decided(plugin).faults
    assert (fault.plugin, fault.hook) == ("rooms", "filter_nodes")
    assert fault.error == (
        f"UndeclaredReadError: plugin rooms reads {what} of a PodGroup in filter_nodes, whose "
        f"answer counts for equal pods of other PodGroups, too: add it to {attribute} of the plugin"
    )


class Owned(Rooms):
    """Nodes with an owner in an annotation take only pods of PodGroups with this owner."""

    reads_annotations: ClassVar[Sequence[str]] = (OWNER,)
    reads_labels: ClassVar[Sequence[str]] = ("tier",)

    def open(self, session: Session) -> None:
        """Keep the jobs."""
        self._states = session.job_states

    def _mask(self, owner: str | None, layout: NodeLayout) -> Mask:
        column, codes = layout.annotation(OWNER)
        mask: Mask = column == codes.get(owner or "", len(codes))
        return mask

    @depends_on(On.CLASS | On.NODE)
    def class_nodes(self, pod_class: PodClass, layout: NodeLayout) -> Mask:
        """Return the nodes of the owner."""
        hints = pod_class.hints
        return self._mask(hints.get(f"group {OWNER}") or hints.get("group label tier"), layout)

    @depends_on(On.CLASS | On.NODE)
    def filter_nodes(self, task: Task, nodes: NodeView) -> Sequence[FilterResult]:
        """Refuse all other nodes."""
        job = self._states[task.job].job
        owner = job.annotations.get(OWNER) or job.labels.get("tier")
        mine = nodes.of(self._mask(owner, nodes.layout))
        return [FilterResult("node(s) had another owner", mine)]


class ReadsNodes(Owned):
    """Reads an annotation of nodes that it doesn't declare."""

    reads_annotations = ()

    def filter_nodes(self, task: Task, nodes: NodeView) -> Sequence[FilterResult]:
        """Refuse all other nodes."""
        del task
        return [FilterResult("node(s)", nodes.of(self._mask("lab", nodes.layout)))]

    def class_nodes(self, pod_class: PodClass, layout: NodeLayout) -> Mask:
        """Return all nodes."""
        del pod_class
        return np.ones(layout.size, dtype=np.bool_)


class World:
    """A Mirror, and what its cycles bind."""

    def __init__(self, documents: Sequence[Document], configured: Policy) -> None:
        names = (pictures.SCHEDULER,)
        self.mirror = Mirror(MirrorOptions(scheduler_names=names, reads=configured.reads))
        self.policy = configured
        self.documents = {(each["kind"], each["metadata"]["name"]): each for each in documents}
        for document in documents:
            self.show(document)

    def show(self, document: Document) -> None:
        """Show an object as it is now."""
        kind = events.kind_of(document)
        assert kind is not None
        self.mirror.apply(events.convert(kind, document))

    def result(self) -> CycleResult:
        """One cycle."""
        return cycle.run_cycle(self.mirror.snapshot(pictures.NOW.timestamp()), self.policy)

    def nodes(self) -> dict[str, str]:
        """The node of each pod that a cycle binds."""
        return {bind.task.name: bind.node for bind in self.result().binds}


def _owned(plugin: type[Plugin] = Owned) -> World:
    """Two jobs that are equal but for their PodGroups, two nodes with owners, and one without."""
    tree = {"actions": "allocate", "tiers": [TIER]}
    parsed = policy.parse(tree, (*plugins.PLUGINS, plugin), actions.ACTIONS, compat.VOLCANO)
    assert parsed.policy is not None
    documents = pictures.documents("""
        node n1 cpu=8   node n2 cpu=8   node n3 cpu=8
        queue q
        job q/a min=1 -   job q/b min=1 -
        """)
    named = {(each["kind"], each["metadata"]["name"]): each["metadata"] for each in documents}
    named["Node", "n1"]["annotations"] = {OWNER: "lab"}
    named["Node", "n2"]["annotations"] = {OWNER: "web"}
    named["PodGroup", "a"]["annotations"] = {OWNER: "web"}
    named["PodGroup", "b"]["labels"] = {"tier": "lab"}
    return World(documents, parsed.policy)


def test_declared_texts_of_podgroups_and_nodes_are_read() -> None:
    """Equal pods of PodGroups with different texts get answers of their own."""
    assert _owned().nodes() == {"a-0": "n2", "b-0": "n1"}


def test_pods_follow_the_texts_of_their_podgroup() -> None:
    """Whether the PodGroup gets another annotation, or loses it."""
    world = _owned()
    group = world.documents["PodGroup", "a"]
    for owner, node in (("lab", "n1"), ("web", "n2"), ("nobody", None)):
        group["metadata"]["annotations"] = {OWNER: owner}
        world.show(group)
        assert world.nodes().get("a-0") == node
    del group["metadata"]["annotations"]
    world.show(group)
    assert world.nodes() == {"b-0": "n1"}


def test_an_undeclared_annotation_of_nodes_is_a_failure_of_the_plugin() -> None:
    """The fault names it."""
    (fault,) = _owned(ReadsNodes).result().faults
    assert (fault.plugin, fault.hook) == ("rooms", "filter_nodes")
    assert fault.error == (
        f"UndeclaredReadError: annotation {OWNER} of nodes is read, but not declared: "
        "add it to reads_annotations of the plugin"
    )


def test_a_filter_without_nodes_for_shares_is_refused() -> None:
    """Shares would count nodes that it refuses."""

    class FiltersOnly(Plugin):
        name = "rooms"
        filter_nodes = Rooms.filter_nodes

    tree = {"actions": "allocate", "tiers": [TIER]}
    known = (*plugins.PLUGINS, FiltersOnly)
    parsed = policy.parse(tree, known, actions.ACTIONS, compat.VOLCANO)
    (problem,) = parsed.problems
    assert str(problem) == (
        "tiers[0].plugins[1].name: plugin rooms defines filter_nodes without class_nodes or "
        "queue_nodes, so shares would count nodes that it refuses: define class_nodes, too, which "
        "returns None if it depends on what runs there"
    )


def test_our_plugins_read_nothing_undeclared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plugins of the scheduler aren't guarded in production; here they are."""
    monkeypatch.setattr(declared_reads, "BUILT_IN", "none of our modules")
    picture = """
        node  n1 cpu=4 label=zone=a   node n2 cpu=4 taint=dedicated=lab:NoSchedule
        queue gold weight=2   queue lead
        job   lead/greedy min=1 n1 n1 n1
        job   gold/needy  min=2 priority=5 - -
        """
    tiers = (
        "priority gang conformance pdb cdp sla tdm resourcequota"
        " | overcommit drf predicates proportion nodegroup nodeorder binpack resource-strategy-fit"
    )
    tree = {"actions": "enqueue, allocate, backfill, reclaim", "tiers": running.tiers(tiers)}
    assert running.run(pictures.documents(picture), tree).faults == ()
