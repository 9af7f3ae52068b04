"""Plugins that declare nothing are asked anew each time, whatever their answers follow from."""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

from tests import running
from tests.properties import undeclared
from tests.unit.core.placement.unschedulable_cluster import Around
from vscheduler.core import actions, compat, cycle, plugins
from vscheduler.core.api.contracts import FilterResult, NodeView, Plugin, Session
from vscheduler.core.api.views import JobState
from vscheduler.core.config import policy
from vscheduler.core.config.policy import Policy
from vscheduler.model.decisions import CycleResult, Reason, ReasonCode
from vscheduler.model.jobs import PodClass, Task
from vscheduler.model.nodes import Mask, NodeLayout
from vscheduler.testing import pictures

FREE = """
    node n1 cpu=4   node n2 cpu=4   node n3 cpu=4   node n4 cpu=4   node n5 cpu=4
    queue q
    job q/a min=1 cpu=1 -*4
    """
ALIKE = """
    node n1 cpu=4
    queue q
    job q/a min=1 cpu=1 -
    job q/b min=1 cpu=1 -
    """
HELD = """
    node n1 cpu=2
    queue q
    queue lender
    job lender/there min=1 cpu=1 n1*2
    job q/a min=1 cpu=1 -
    job q/b min=1 cpu=1 -
    """
EMPTY = """
    node n1 cpu=2
    queue q
    job q/a min=1 cpu=2 phase=Inqueue -
    """
WAITING = """
    node n1 cpu=2
    queue q
    job q/there min=1 cpu=1 phase=Running n1
    job q/a min=1 cpu=2 phase=Inqueue -
    job q/b min=1 cpu=2 phase=Inqueue -
    """


NEAR_A_LATER_ONE = """
    node n1 cpu=4 label=zone=a   node n2 cpu=3 label=zone=a
    node n3 cpu=2 label=zone=a label=role=x
    queue q   queue r
    job r/run  min=1 cpu=1 n3
    job q/gang min=2 port=80 near=app=late@zone age=9 -@3 -@4
    job r/late min=1 cpu=1 label=app=late select=role=x age=1 -
    """
"""The gang finds nodes after its turn, free ones: the next cycle binds it."""
ONE_IS_SPARED = """
    node n1 cpu=2 label=zone=a   node n2 cpu=2 label=zone=a   node n3 cpu=2 label=zone=a
    queue q guarantee=cpu:4   queue s
    job s/one  min=1 cpu=2 n2
    job s/two  min=2 cpu=2 n1 n3
    job q/gang min=2 cpu=2 label=app=gang near=app=gang@zone -*2
    """
"""One pod goes to the node that the other gang leaves as well, the other stays on its own."""


class Undeclared(Plugin):
    """Keeps the session; nodes count for shares whatever it answers."""

    name = "undeclared"
    switched: ClassVar[bool] = False

    def open(self, session: Session) -> None:
        """Keep the session."""
        self._session = session

    def class_nodes(self, pod_class: PodClass, layout: NodeLayout) -> Mask | None:
        """All nodes."""
        del pod_class, layout
        return None

    def _name(self, task: Task) -> str:
        return self._session.job_states[task.job].job.name


class TwoInAll(Undeclared):
    """No node takes a third pod of the cycle, wherever the first two went."""

    def filter_nodes(self, task: Task, nodes: NodeView) -> Sequence[FilterResult]:
        """All nodes or none."""
        del task
        few = _placed(self._session) < 2
        return [FilterResult("node(s) had enough", np.full(nodes.size, few))]


class NextNode(Undeclared):
    """The best node is the next one after each placement."""

    def score_nodes(self, task: Task, nodes: NodeView) -> NDArray[np.float64]:
        """Far more than other scores."""
        del task
        turn = _placed(self._session)
        rows = np.arange(nodes.layout.size) if nodes.rows is None else nodes.rows
        return np.where(rows == turn, 1e6, 0.0)


class SecondJob(Undeclared):
    """A node takes only pods of job b, which are like those of job a."""

    def filter_nodes(self, task: Task, nodes: NodeView) -> Sequence[FilterResult]:
        """By the name of the job."""
        return [FilterResult("node(s) waited for b", np.full(nodes.size, self._name(task) == "b"))]


class SecondMayTake(Undeclared):
    """Only job b may take pods."""

    def reclaimable(self, preemptor: Task, candidates: Sequence[Task]) -> Sequence[Task]:
        """By the name of the job."""
        return candidates if self._name(preemptor) == "b" else ()


class LaterInvalid(Undeclared):
    """In later cycles, no job is valid."""

    def job_valid(self, state: JobState) -> Reason | None:
        """All jobs or none."""
        code, job = ReasonCode.BAD_SETTING, state.job
        return Reason(code=code, queue=job.queue, subject="late") if self.switched else None


class LaterOpen(Undeclared):
    """Nodes count in later cycles only."""

    def class_nodes(self, pod_class: PodClass, layout: NodeLayout) -> Mask:
        """All nodes or none."""
        del pod_class
        return np.full(layout.size, self.switched)


def _placed(session: Session) -> int:
    """How many pods have nodes that had none before."""
    return sum(
        state.node(task) is not None and not task.node
        for state in session.job_states.values()
        for task in state.job.tasks
    )


def configured(plugin: type[Plugin]) -> Policy:
    """The usual configuration, with this plugin before the usual ones."""
    tree: dict[str, Any] = {
        "actions": "enqueue, allocate, reclaim",
        "tiers": [{"plugins": [{"name": plugin.name}]}, *policy.BUILT_IN["tiers"]],  # type: ignore[misc]  # plain data
    }
    parsed = policy.parse(tree, (*plugins.PLUGINS, plugin), actions.ACTIONS, compat.VOLCANO)
    assert parsed.policy is not None, parsed.problems
    return parsed.policy


def run(plugin: type[Plugin], picture: str) -> CycleResult:
    """One cycle with this plugin."""
    snapshot = running.snapshot_of(pictures.documents(picture))
    result = cycle.run_cycle(snapshot, configured(plugin))
    assert result.faults == ()
    return result


def test_a_pod_elsewhere_closes_all_nodes() -> None:
    """Nodes that nothing has changed on are asked about again."""
    assert len(run(TwoInAll, FREE).binds) == 2


def test_a_pod_elsewhere_changes_all_scores() -> None:
    """The nodes take turns."""
    assert [bind.node for bind in run(NextNode, FREE).binds] == ["n1", "n2", "n3", "n4"]


def test_pods_of_one_class_get_answers_of_their_own() -> None:
    """What is said of job a is said of no other."""
    assert [bind.task.name for bind in run(SecondJob, ALIKE).binds] == ["b-0"]


def test_a_job_in_vain_keeps_no_other_from_victims() -> None:
    """The second job, which is like the first, may take a pod."""
    assert [evict.beneficiary for evict in run(SecondMayTake, HELD).evicts] == ["default/b"]


def test_a_later_cycle_asks_about_jobs_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs without room aren't valid any more."""
    around = Around(WAITING)
    around.policy = configured(LaterInvalid)
    around.cycle()
    monkeypatch.setattr(Undeclared, "switched", True)
    groups = around.cycle().groups
    codes = {str(each.job): each.reason and each.reason.code for each in groups}
    assert [codes["default/a"], codes["default/b"]] == [ReasonCode.BAD_SETTING] * 2


def test_a_later_cycle_asks_about_nodes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs for which no node counted start once one does."""
    around = Around(EMPTY)
    around.policy = configured(LaterOpen)
    assert around.cycle().binds == ()
    monkeypatch.setattr(Undeclared, "switched", True)
    assert [bind.task.name for bind in around.cycle().binds] == ["a-0"]


@pytest.mark.parametrize(
    ("picture", "placed"),
    [(NEAR_A_LATER_ONE, {}), (ONE_IS_SPARED, {"gang-0": "n3", "gang-1": "n1"})],
    ids=["near a later one", "one is spared"],
)
def test_plans_follow_from_answers_alone(picture: str, placed: dict[str, str]) -> None:
    """Whether plugins say in advance what these depend on."""
    declared = running.policy_of({**running.TREE, "actions": "allocate, reclaim"})
    snapshot = running.snapshot_of(pictures.documents(picture))
    for policy_ in (declared, undeclared.policy(declared)):
        pipelined = cycle.run_cycle(snapshot, policy_).pipelined
        assert {each.task.name: each.node for each in pipelined} == placed
