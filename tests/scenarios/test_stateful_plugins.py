"""Plugins whose answers about a node change with what is placed on it."""

from collections import Counter
from collections.abc import Hashable, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from tests import running
from vscheduler.core import cycle, plugins
from vscheduler.core.api import depends
from vscheduler.core.api.contracts import FilterResult, NodeView, Plugin, Session
from vscheduler.core.api.depends import On, depends_on
from vscheduler.core.api.further_hooks import AllHooks
from vscheduler.core.config import policy as policies
from vscheduler.core.config.policy import PluginSetting, Policy
from vscheduler.core.session import dispatch
from vscheduler.model.decisions import CycleResult
from vscheduler.model.jobs import PodClass, Task
from vscheduler.model.nodes import NodeLayout
from vscheduler.testing import pictures

MANY_NODES = "\n".join(f"node n{number:02} cpu=16" for number in range(12))
PICTURE = f"""{MANY_NODES}
    queue q
    job q/a min=6 -*6
    job q/b min=6 -*6
    """


class TwoOnANode(Plugin):
    """At most two pods on one node, of those that were placed in this cycle."""

    name = "two-on-a-node"

    @depends_on(On.NOTHING)
    def class_nodes(self, pod_class: PodClass, layout: NodeLayout) -> None:
        """Return None: empty nodes take any pod."""
        del pod_class, layout

    def open(self, session: Session) -> None:
        """Nobody was placed yet."""
        self._session = session
        self._counts: Counter[int] = Counter()

    def filter_nodes(self, _: Task, nodes: NodeView) -> Sequence[FilterResult]:
        """Nodes with fewer than two."""
        rows = range(nodes.layout.size) if nodes.rows is None else nodes.rows.tolist()
        passes = np.array([self._counts[row] < 2 for row in rows], dtype=np.bool_)
        return [FilterResult("node(s) had two pods", passes)]

    def on_allocate(self, task: Task) -> None:
        """One more."""
        self._count(task, 1)

    def on_deallocate(self, task: Task) -> None:
        """One less."""
        self._count(task, -1)

    def _count(self, task: Task, step: int) -> None:
        node = self._session.job_states[task.job].node(task)
        self._counts[self._session.snapshot.nodes.layout.rows[node or ""]] += step


class LooksForThem(Plugin):
    """At most two pods on one node. It takes no notes: the session knows who is where."""

    name = "looks-for-them"

    @depends_on(On.NOTHING)
    def class_nodes(self, pod_class: PodClass, layout: NodeLayout) -> None:
        """Return None: empty nodes take any pod."""
        del pod_class, layout

    def open(self, session: Session) -> None:
        """Nothing is counted yet."""
        self._gangs = session.job_states

    def filter_nodes(self, _: Task, nodes: NodeView) -> Sequence[FilterResult]:
        """Nodes with fewer than two."""
        return [FilterResult("node(s) had two pods", self._counts(nodes) < 2)]

    def _counts(self, nodes: NodeView) -> NDArray[np.int64]:
        every = self._gangs.values()
        found = Counter(state.node(task) for state in every for task in state.job.tasks)
        rows = range(nodes.layout.size) if nodes.rows is None else nodes.rows.tolist()
        return np.array([found[nodes.layout.names[row]] for row in rows], dtype=np.int64)


class LikesThemFew(LooksForThem):
    """The same as a wish: where there are two already, any other node is better."""

    def filter_nodes(self, _: Task, nodes: NodeView) -> Sequence[FilterResult]:
        """All nodes will do."""
        return [FilterResult("never", np.ones(nodes.size, dtype=np.bool_))]

    def score_nodes(self, _: Task, nodes: NodeView) -> NDArray[np.float64]:
        """Far below what packing can make up for."""
        return np.where(self._counts(nodes) < 2, 0.0, -1e6)


class TellsItsCounts(TwoOnANode):
    """The same, and declares what its answers depend on."""

    def _on_rows(self, _: Task, rows: NDArray[np.int64]) -> Sequence[Hashable]:
        return [self._counts[row] for row in rows.tolist()]

    @depends_on(On.NODE, row_fingerprint=_on_rows)
    def filter_nodes(self, _: Task, nodes: NodeView) -> Sequence[FilterResult]:
        """Nodes with fewer than two."""
        return super().filter_nodes(_, nodes)


class TellsTooMuch(TellsItsCounts):
    """The same, with one value too many."""

    def _and_more(self, _: Task, rows: NDArray[np.int64]) -> Sequence[Hashable]:
        return [*self._on_rows(_, rows), 0]

    @depends_on(On.NODE, row_fingerprint=_and_more)
    def filter_nodes(self, _: Task, nodes: NodeView) -> Sequence[FilterResult]:
        """Nodes with fewer than two."""
        return super().filter_nodes(_, nodes)


def run(plugin: type[Plugin]) -> CycleResult:
    """One cycle that packs, with this plugin before the usual ones."""
    tiers = running.tiers("gang | predicates nodeorder binpack:binpack.weight=10")
    usual = running.policy_of({"actions": "allocate", "tiers": tiers})
    mine = (PluginSetting(plugin=plugin),)
    snapshot = running.snapshot_of(pictures.documents(PICTURE))
    return cycle.run_cycle(snapshot, Policy(actions=usual.actions, tiers=(mine, *usual.tiers)))


@pytest.mark.parametrize("plugin", [TwoOnANode, TellsItsCounts])
def test_a_plugin_that_counts_is_asked_about_nodes_as_they_are(
    plugin: type[Plugin],
) -> None:
    """Packing puts two on a node, and no third one, whether the plugin says that it counts."""
    result = run(plugin)
    assert result.faults == ()
    assert Counter(Counter(bind.node for bind in result.binds).values()) == {2: 6}


@pytest.mark.parametrize("plugin", [LooksForThem, LikesThemFew])
def test_a_plugin_that_looks_at_the_session_finds_it_as_it_is(
    plugin: type[Plugin],
) -> None:
    """It has no on_allocate, and still no node gets a third pod."""
    result = run(plugin)
    assert result.faults == ()
    assert Counter(Counter(bind.node for bind in result.binds).values()) == {2: 6}


@pytest.mark.parametrize("plugin", plugins.PLUGINS)
def test_our_plugins_declare_what_shared_answers_depend_on(plugin: type[Plugin]) -> None:
    """One that doesn't would be asked anew about each pod, and each job."""
    shared = {hook.__name__ for hook in (*dispatch.ABOUT_JOBS, AllHooks.job_key)}
    shared |= {*policies.ABOUT_WAITING, *policies.ABOUT_NODES}
    answers = PluginSetting(plugin=plugin).answers & (shared | {"score_node_set"})
    assert [hook for hook in answers if depends.of(plugin, hook) is None] == []


def test_an_answer_for_another_number_of_rows_is_a_fault() -> None:
    """The plugin is named with the hook, and nothing is foreseen from it."""
    result = run(TellsTooMuch)
    assert [(fault.plugin, fault.hook) for fault in result.faults] == [
        ("two-on-a-node", "filter_nodes")
    ]
    assert Counter(Counter(bind.node for bind in result.binds).values()) == {2: 6}
